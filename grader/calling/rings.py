"""Inside a rank: how exercises about recomputation and about attention over a long sequence are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.sharding import HELD, settled
from utils.costs.flops import FlopCounter
from utils.trace.memory import held_bytes
from utils.trace.spans import mark

RUN, FLOPS = "run called", "FLOPs"
LEAST = -1e30
RESULTS = 5  # what may stand after attention, in sizes of q: o, lse, and copies of q, k and v
REFUSED = "ValueError that names"


def layer(x_BD: Tensor, up_DF: Tensor, down_FD: Tensor, p: float) -> Tensor:
    """One layer with much inside: x + dropout(gelu(x·up))·down."""
    return x_BD + F.dropout(F.gelu(x_BD @ up_DF), p) @ down_FD


def call_recompute(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """A chain of layers, y = function.apply(run, y, up, down), and its gradients; marks each run, and what then stands."""
    torch.manual_seed(inputs["seed"])
    x_BD = inputs["x"].clone().requires_grad_(inputs["x_trained"])
    weights = [[one.clone().requires_grad_(inputs["down_trained"] or name == "up") for name, one in pair.items()]
               for pair in inputs["layers"]]
    y_BD, start = x_BD, held_bytes()
    for number, (up_DF, down_FD) in enumerate(weights):
        y_BD = function.apply(_marked(number, up_DF, down_FD, inputs["p"]), y_BD, up_DF, down_FD)
    mark(HELD, bytes=held_bytes() - start)
    after_forward = torch.rand(3)
    (y_BD * inputs["weights"]).sum().backward()
    return {"y": y_BD, "dx": x_BD.grad, "dparameters": [[one.grad for one in pair] for pair in weights],
            "random after forward": after_forward, "random after backward": torch.rand(3)}


def _marked(number: int, up_DF: Tensor, down_FD: Tensor, p: float) -> Callable[[Tensor], Tensor]:
    def run(x_BD: Tensor) -> Tensor:
        mark(RUN, layer=number)
        return layer(x_BD, up_DF, down_FD, p)

    return run


def call_merge(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Tensor]:
    """fn(o1, lse1, o2, lse2) over the parts of the keys, one after another → the attention to all of them.

    Where lse is −inf, which equals nothing, LEAST stands for it.
    """
    parts = [_part(inputs["q"], k, v, seen) for k, v, seen in zip(inputs["ks"], inputs["vs"], inputs["seen"], strict=True)]
    o, lse = parts[0]
    for part in parts[1:]:
        o, lse = fn(o, lse, *part)
    return {"o": o, "lse": torch.where(lse == float("-inf"), LEAST, lse)}


def _part(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Attention to the keys that each query sees; zeros and −inf for a query that sees none."""
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    return torch.softmax(scores, -1).nan_to_num() @ v, lse


def call_ring_attention(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """o = function.apply(q, k, v, group) and its gradients; marks the work done and what stands between the two.

    Or what a ValueError says of the sizes that do not fit.
    """
    q, k, v = (inputs[name].clone().requires_grad_() for name in "qkv")
    start = held_bytes()
    with FlopCounter() as forward:
        try:
            o = function.apply(q, k, v, group)
        except ValueError as error:
            return {REFUSED: _named(inputs["sizes"], error)}
    mark(HELD, bytes=settled(start, RESULTS * q.nbytes))
    with FlopCounter() as backward:
        if o.shape == inputs["weights"].shape and o.requires_grad:
            (o * inputs["weights"]).sum().backward()
    mark(FLOPS, forward=forward.total, backward=backward.total)
    return {"o": o, "dq": q.grad, "dk": k.grad, "dv": v.grad}


def call_swap(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Tensor]:
    """y = function.apply(x, cut, join, group) and its gradient."""
    x = inputs["x"].clone().requires_grad_()
    y = function.apply(x, inputs["cut"], inputs["join"], group)
    if y.shape == inputs["weights"].shape:
        (y * inputs["weights"]).sum().backward()
    return {"y": y, "dx": x.grad}


def call_attention(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """o = fn(q, k, v, group) and its gradients; or what a ValueError says of the sizes that do not fit."""
    q, k, v = (inputs[name].clone().requires_grad_() for name in "qkv")
    try:
        o = fn(q, k, v, group)
    except ValueError as error:
        return {REFUSED: _named(inputs["sizes"], error)}
    if o.shape == inputs["weights"].shape and o.requires_grad:
        (o * inputs["weights"]).sum().backward()
    return {"o": o, "dq": q.grad, "dk": k.grad, "dv": v.grad}


def _named(sizes: list[int], error: ValueError) -> list[int]:
    return [size for size in sizes if str(size) in str(error)]
