"""Inside a rank: what goes through a stage, in numbers that tell one micro-batch from another."""

from collections.abc import Callable

import torch
from torch import Tensor

from utils.trace.spans import mark

THROUGH = "went through"
X, Y, DY, DX = "x", "y", "dy", "dx"  # what goes in, what comes out, and the gradients of both


def numbers_of(tensor: Tensor) -> list[list[float]]:
    """Of each row (along dim 0) its sum, and its sum weighted by place.

    As nobody else's look at numbers: neither a mode nor the tensor's own class hears of it.
    """
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return summed(Tensor.detach(tensor).double()).tolist()


def summed(tensor: Tensor) -> Tensor:
    """(N, …) → (N, 2), a tensor of one dim as one row. By no matrix product, so that no FLOPs are counted."""
    rows = tensor.flatten(1) if tensor.dim() > 1 else tensor.reshape(1, -1)
    places = torch.arange(1, rows.shape[1] + 1, dtype=rows.dtype)
    return torch.stack([rows.sum(1), (rows * places).sum(1)], 1)


def gone_through(forward: Callable[[Tensor], Tensor], x: Tensor, number: int) -> Tensor:
    """forward(x); marks the numbers of what goes through, forward and backward. number: of the pass, from 0."""

    def note(what: str) -> Callable[[Tensor], None]:
        return lambda tensor: mark(THROUGH, what=what, number=number, rows=numbers_of(tensor))

    note(X)(x)
    if x.requires_grad:
        x = x.view_as(x)
        x.register_hook(note(DX))
    y = forward(x)
    note(Y)(y)
    if y.requires_grad:
        y.register_hook(note(DY))
    return y
