"""What each torch operation costs on a device that is not there: FLOPs, bytes touched, seconds by the roofline.

An operation takes the longer of computing (its FLOPs at the device's speed) and memory (its inputs and outputs, read and
written once; of a table in which it looks up rows, those). Not modelled: caches, fused kernels, small products that do not
fill the device.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy
from torch.utils.flop_counter import flop_registry

from utils.simulation.cluster import Device
from utils.simulation.shapes import NO_OPTIONS, Recipe, ShapesOnly
from utils.trace.memory import MemoryMeter, is_wrapped, makes_views

Cost = tuple[float, float, float]
NOTHING: Cost = (0, 0, 0)

DEVICE_OF = torch.ops.prim.device.default
# torch counts the fused attention of GPUs; on the CPU, which these tensors are said to be on, it has another name.
FORMULAS = {**flop_registry,
            torch.ops.aten._scaled_dot_product_flash_attention_for_cpu:
                flop_registry[torch.ops.aten._scaled_dot_product_flash_attention],
            torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward:
                flop_registry[torch.ops.aten._scaled_dot_product_flash_attention_backward]}

# They read as many rows of their first input as come out, and not all of it.
LOOKUPS = {torch.ops.aten.embedding, torch.ops.aten.index_select, torch.ops.aten.gather, torch.ops.aten.index}


@dataclass
class Work:
    """What a rank has computed so far."""

    flops: float = 0.0
    bytes_touched: float = 0.0
    seconds: float = 0.0


class Roofline(MemoryMeter):
    """Counts operations and the storages that they make, while entered: those of tensors without numbers too."""

    IGNORED_DEVICES = frozenset()

    def __init__(self, device: Device, shapes: ShapesOnly | None = None):
        """shapes: the mode below, asked what it remembers without torch's way to it."""
        super().__init__()
        self.work, self._device, self._shapes = Work(), device, shapes
        self._followed: set[int] = set()  # ids of parameters

    def __torch_dispatch__(self, func, types, args: tuple = (), kwargs=NO_OPTIONS):
        if func is DEVICE_OF:  # which autograd asks more often than all the rest, and a fake tensor answers slowly
            return args[0].fake_device
        if self._shapes is not None:
            recipe, tensors = self._shapes.recall(func, args, kwargs)
            if recipe is not None:
                return self._remade(recipe, tensors, func, args, kwargs)
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _remade(self, recipe: Recipe, tensors: list[torch.Tensor], func, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """The same in fewer steps: it is known which results are new, and what it costs. tensors: the inputs."""
        made = self._shapes.made(recipe, args)
        self._see_all(tensors)
        for i in recipe.new:
            tensors.append(made[i])
            self._hold(made[i].untyped_storage())
        result = recipe.result_of(made)
        all_differ = len({*map(id, tensors)}) == len(tensors)  # else one costs nothing the second time
        cost = recipe.cost if all_differ else None
        if cost is None:
            cost = self._cost_of(func, args, kwargs, result, tensors)
            if all_differ:
                recipe.cost = cost
        self._add(cost)
        return result

    def _see_all(self, tensors: list[torch.Tensor], category: str | None = None) -> None:
        """Most are known, and of a size that does not change."""
        if category is None:
            tensors = [tensor for tensor in tensors if not self._is_seen(tensor)]
        if tensors:
            super()._see_all(tensors, category)

    def _is_seen(self, tensor: torch.Tensor) -> bool:
        if type(tensor) is not FakeTensor or tensor.layout is not torch.strided:
            return False
        storage = tensor.untyped_storage()
        held = self._held.get(storage._cdata)
        return held is not None and held.nbytes == storage.nbytes()

    def _on_parameter(self, module, name, parameter) -> None:
        """Its gradient is followed from the first forward pass on: before, module.to() must be able to swap it."""
        if isinstance(parameter, torch.Tensor) and not is_lazy(parameter) and not is_wrapped(parameter):
            self.see(parameter, "parameters")

    def _on_forward(self, module, args, output) -> None:
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in self._followed and not is_wrapped(parameter):
                self._followed.add(id(parameter))
                super()._on_parameter(module, name, parameter)
        super()._on_forward(module, args, output)

    def _on_operation(self, func, args: tuple, kwargs: Mapping[str, Any], result: Any, tensors: list[torch.Tensor]) -> None:
        self._add(self._cost_of(func, args, kwargs, result, tensors))

    def _cost_of(self, func, args: tuple, kwargs: Mapping[str, Any], result: Any, tensors: list[torch.Tensor]) -> Cost:
        """FLOPs, bytes touched, seconds."""
        if not tensors or _is_free(func):
            return NOTHING
        formula = FORMULAS.get(func.overloadpacket)
        flops = formula(*args, **kwargs, out_val=result) if formula else 0
        touched = sum({id(tensor): tensor.nbytes for tensor in tensors}.values())
        if func.overloadpacket in LOOKUPS:
            touched -= max(0, args[0].nbytes - result.nbytes)
        dtype = str(tensors[0].dtype).removeprefix("torch.")
        seconds = max(flops / self._device.flops_of(dtype), touched / self._device.memory_bytes_per_s)
        return flops, touched, seconds + self._device.overhead_s

    def _add(self, cost: Cost) -> None:
        flops, touched, seconds = cost
        self.work.flops += flops
        self.work.bytes_touched += touched
        self.work.seconds += seconds


@functools.cache
def _is_free(func) -> bool:
    """Views touch nothing; what belongs to communication is the network's; empty memory is not written."""
    name = func._schema.name
    return makes_views(func) or func.namespace in ("c10d", "_c10d_functional", "prim") or name.startswith("aten::empty") \
        or name in ("aten::_unsafe_view", "aten::new_empty")
