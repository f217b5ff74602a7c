"""What calls of exercises about recomputation and about attention over a long sequence share."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

RUN, FLOPS, LARGEST = "run called", "FLOPs", "numbers of the largest result"
LEAST = -3.0 ** 61  # a number that nobody writes down
RESULTS = 5  # what may stand after attention, in sizes of q: o, lse, and copies of q, k and v


def layer(x_BD: Tensor, up_DF: Tensor, down_FD: Tensor, p: float) -> Tensor:
    """One layer with much inside: x + dropout(gelu(x·up))·down."""
    return x_BD + F.dropout(F.gelu(x_BD @ up_DF), p) @ down_FD


def trained(inputs: dict[str, Any]) -> tuple[Tensor, list[list[Tensor]]]:
    """x and each layer's [up, down]: copies that get a gradient, but for what the case says is not trained.

    tied: all layers have the first one's.
    """
    layers = inputs["layers"]
    weights = [[pair[name].clone().requires_grad_(name != inputs["frozen"]) for name in ("up", "down")]
               for pair in (layers[:1] if inputs["tied"] else layers)]
    weights *= len(layers) // len(weights)
    return inputs["x"].clone().requires_grad_(inputs["x_trained"]), weights


def backward_of(o: Tensor, weights: Tensor) -> None:
    """From the loss Σ weights·o, if o has its shape and a graph."""
    if o.shape == weights.shape and o.requires_grad:
        (o * weights).sum().backward()
