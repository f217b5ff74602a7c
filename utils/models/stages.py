"""One stage of a pipeline: its output and that of each layer inside it, and one that takes as long as it is told."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from utils.models.layers import tensors_in

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
                             "gradient cannot be told apart; run the stage with its backward in one piece")
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
    """Does nothing forward, and sleeps backward."""

    @staticmethod
    def forward(ctx, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return gradient, None
