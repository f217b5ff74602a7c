"""What autograd keeps between forward and backward: bytes, by the part of a module that keeps them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

OUTSIDE = "elsewhere"


def saved_by_part(module: nn.Module, run: Callable[[], Any]) -> dict[str, int]:
    """Part name → bytes that are kept for the backward pass of run(), in order of the parts that keep them first.

    A part is a leaf of `module`, by its name; what no part keeps is "elsewhere". Counted are storages, each once, with the
    part that asks for it first. Parameters and buffers are there anyway, and are not counted.
    """
    parts = {name: part for name, part in module.named_modules() if name and not any(part.children())}
    stack, kept_bytes = [OUTSIDE], {}
    known = {_storage(tensor).data_ptr() for tensor in (*module.parameters(), *module.buffers())}

    def pack(tensor: Tensor) -> Tensor:
        storage = _storage(tensor)
        if storage.data_ptr() not in known:
            known.add(storage.data_ptr())
            kept_bytes[stack[-1]] = kept_bytes.get(stack[-1], 0) + storage.nbytes()
        return tensor

    hooks = [part.register_forward_pre_hook(lambda *_, name=name: stack.append(name)) for name, part in parts.items()]
    hooks += [part.register_forward_hook(lambda *_: stack.pop() and None) for part in parts.values()]
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = run()  # keeps the graph, and so each storage's address its own, until all are counted
    finally:
        for hook in hooks:
            hook.remove()
    del result
    return kept_bytes


def saved_bytes(module: nn.Module, run: Callable[[], Any]) -> int:
    """All that is kept for the backward pass of run(), in bytes, without module's parameters and buffers."""
    return sum(saved_by_part(module, run).values())


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    """Of a distributed tensor, the storage of this rank's part."""
    while True:
        inner = getattr(tensor, "_local_tensor", getattr(tensor, "elem", None))
        if inner is None:
            return tensor.untyped_storage()
        tensor = inner
