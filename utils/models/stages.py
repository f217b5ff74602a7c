"""Stages of a pipeline: how they are cut, pieces of a model, its layers, and stages that take as long as they are told."""

import contextlib
import itertools
import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from utils.models.layers import tensors_in
from utils.models.tiny import TinyGPT
from utils.trace.spans import span

Layers = list[tuple[Tensor, list[nn.Parameter]]]


def with_layers(module: nn.Module, *args: Tensor) -> tuple[Tensor, Layers]:
    """module(*args), and of each layer that was used: its output, and the trained parameters that are its own.

    A layer is any module with parameters registered directly in it.
    Raises: ValueError for a layer with several outputs, and for a weight that is used twice.
    """
    found: Layers = []

    def note(layer: nn.Module, _, output) -> None:
        own = [p for p in layer.parameters(recurse=False) if p.requires_grad]
        if any(p is other for p in own for _, others in found for other in others):
            raise ValueError(f"a weight of {type(layer).__name__} is used twice in one stage: what both uses add to its "
                             "gradient cannot be told apart; run the stage with its whole backward pass at once")
        if own and len(tensors_in(output)) != 1:
            raise ValueError(f"{type(layer).__name__} returned {len(tensors_in(output))} tensors; expected one a layer")
        if own:
            found.append((tensors_in(output)[0], own))

    hooks = [layer.register_forward_hook(note) for layer in module.modules()]
    try:
        return module(*args), found
    finally:
        for hook in hooks:
            hook.remove()


def split_layers(n_layers: int, n_stages: int) -> list[range]:
    """The layers of each stage: sizes differ by one at most, and the larger stages come first.

    Raises: ValueError if there are more stages than layers.
    """
    if n_stages > n_layers:
        raise ValueError(f"{n_layers} layers cannot be cut into {n_stages} stages: some would have none")
    each, more = divmod(n_layers, n_stages)
    starts = [stage * each + min(stage, more) for stage in range(n_stages + 1)]
    return [range(start, stop) for start, stop in itertools.pairwise(starts)]


class GPTStage(nn.Module):
    """Some blocks of a TinyGPT; the first stage has the embeddings too, the last one the norm and the head.

    Parameters keep the names that they have in the whole model. Shapes: the first stage takes bytes (B, T), the others
    (B, T, D); the last one gives logits (B, T, V), the others (B, T, D).
    """

    def __init__(self, model: TinyGPT, layers: Sequence[int]):
        super().__init__()
        if 0 in layers:
            self.embedding, self.positions = model.embedding, model.positions
        self.blocks = nn.ModuleDict({str(layer): model.blocks[layer] for layer in layers})
        if len(model.blocks) - 1 in layers:
            self.norm, self.head = model.norm, model.head

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self, "embedding"):
            x = self.embedding(x) + self.positions(torch.arange(x.shape[1]))
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.norm(x)) if hasattr(self, "head") else x

    @property
    def tied_weight(self) -> nn.Parameter | None:
        """The weight of the embedding or of the head; None on a stage that has neither."""
        part = getattr(self, "embedding", getattr(self, "head", None))
        return None if part is None else part.weight


def begin_together(module: nn.Module, width: int) -> nn.Module:
    """The module, after a pass each way that isn't counted (a process's first is slow) and a barrier of all ranks."""
    module(torch.ones(1, width)).sum().backward()
    module.zero_grad()
    dist.barrier()
    return module


class Delayed(nn.Module):
    """A module on a device of its own: each pass takes so many seconds longer, while the processor is free for others.

    So a pipeline keeps its shape on a machine with fewer cores than ranks. Each pass is a span in the trace, "F3" or "B3".
    """

    def __init__(self, module: nn.Module, forward_s: float, backward_s: float):
        super().__init__()
        self.module, self.forward_s, self.backward_s, self.count = module, forward_s, backward_s, 0

    def forward(self, x: Tensor) -> Tensor:
        micro, self.count = self.count, self.count + 1
        with span(f"F{micro}"):
            time.sleep(self.forward_s)
            return _Sleep.apply(self.module(x), self.backward_s, f"B{micro}")


class SlowStage(nn.Module):
    """tanh of a linear layer on a device of its own: each kind of step takes its time, and the processor is free meanwhile.

    seconds: of an "F", an "I" and a "W"; a whole backward takes those of I and W. So a pipeline keeps its shape on a machine
    with fewer cores than ranks. Shapes: (B, dim) → (B, dim).
    """

    def __init__(self, dim: int, seconds: dict[str, float]):
        super().__init__()
        self.seconds, self.layer = seconds, _SlowLinear(dim, seconds["W"])

    def forward(self, x_BD: Tensor) -> Tensor:
        time.sleep(self.seconds["F"])
        return torch.tanh(_Sleep.apply(self.layer(x_BD), self.seconds["I"]))


class _SlowLinear(nn.Module):
    """x Wᵀ, where finding W's gradient takes its time."""

    def __init__(self, dim: int, seconds: float):
        super().__init__()
        self.seconds, self.weight = seconds, nn.Parameter(torch.randn(dim, dim) / dim ** 0.5)

    def forward(self, x_BD: Tensor) -> Tensor:
        return x_BD @ _Sleep.apply(self.weight, self.seconds).T


class _Sleep(torch.autograd.Function):
    """Does nothing forward, and sleeps backward, in a span of this name if it has one."""

    @staticmethod
    def forward(ctx, x: Tensor, seconds: float, name: str = "") -> Tensor:
        ctx.seconds, ctx.name = seconds, name
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        with span(ctx.name) if ctx.name else contextlib.nullcontext():
            time.sleep(ctx.seconds)
        return gradient, None, None
