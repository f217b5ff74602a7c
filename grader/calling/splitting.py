"""Inside a rank: the ways in which an exercise about split layers is called, and what is held and owned afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.sharding import BACKWARD, FORWARD, HELD, OWNED
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span

INCOMING_CHANGED = "input changed"  # the same mark as call_watching_inputs leaves


class _WithGradient(torch.autograd.Function):
    """Stands behind a function under test: hands it this very tensor as the gradient of its output."""

    @staticmethod
    def forward(ctx, y: Tensor, dy: Tensor) -> Tensor:
        ctx.dy = dy
        return y.new_zeros(())

    @staticmethod
    def backward(ctx, _: Tensor) -> tuple[Tensor, None]:
        return ctx.dy, None


def call_gathered_linear(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """y = function.apply(x, w, group), and the gradients of a loss that every rank computes alike from the whole y."""
    x_BI, w_PI = inputs["x"].clone().requires_grad_(), inputs["w"].clone().requires_grad_()
    with span(FORWARD):
        y_BO = function.apply(x_BI, w_PI, group)
    found = y_BO.detach().clone()
    if found.shape != inputs["c"].shape:  # no loss can be made of it
        return {"y": found, "dx": None, "dW": None}
    loss = (torch.tanh(y_BO) * inputs["c"]).sum()
    with span(BACKWARD):
        loss.backward()
    return {"y": found, "dx": x_BI.grad, "dW": w_PI.grad}


def call_conjugate(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """y = function.apply(x, group), then back with the gradient dy; marks whether x or dy was changed on the way."""
    x, dy = (_laid_out(inputs[name], inputs["transposed"]) for name in ("x", "dy"))
    before = x.clone(), dy.clone()
    leaf = x.requires_grad_()
    with span(FORWARD):
        y = function.apply(leaf, group)
    found = y.detach().clone()
    with span(BACKWARD):
        _WithGradient.apply(y, dy).backward()
    for name, now, was in zip(("x", "dy"), (leaf.detach(), dy), before, strict=True):
        if not torch.equal(now, was):
            mark(INCOMING_CHANGED, parameter=name)
    return {"y": found, "dx": leaf.grad}


def _laid_out(tensor: Tensor, transposed: bool) -> Tensor:
    """A fresh copy; its numbers lie in memory column by column if asked for."""
    return tensor.T.clone().T if transposed else tensor.clone()


def call_split_linear(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """layer = cls(linear, group) on a whole linear layer, then forward and backward → y, dx, and the gradients by name."""
    start = held_bytes()
    layer, refusal = built(cls, (linear_of(inputs["linear"]),), group, inputs)
    if refusal:
        return refusal
    note_share(layer, start)
    return forward_and_back(layer, inputs)


def call_parallel_mlp(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """mlp = cls(up, down, group[, gate]) on whole linear layers, then forward and backward → y, dx, gradients by name."""
    start = held_bytes()
    gate = {} if inputs["gate"] is None else {"gate": linear_of(inputs["gate"])}
    layer, refusal = built(cls, (linear_of(inputs["up"]), linear_of(inputs["down"])), group, inputs, **gate)
    if refusal:
        return refusal
    gate.clear()
    note_share(layer, start)
    return forward_and_back(layer, inputs)


# ── what the exercises with modules share ──


def linear_of(numbers: dict[str, Tensor | None]) -> nn.Linear:
    """A whole nn.Linear with copies of these numbers: "weight" (O, I), "bias" (O,) or None."""
    weight, bias = numbers["weight"], numbers["bias"]
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return linear


def built(cls: Callable, parts: tuple, group, inputs: dict[str, Any], **more: Any) -> tuple[Any, dict[str, str] | None]:
    """(cls(*parts, group), None); in a case whose sizes do not divide, (None, whether a ValueError named them).

    inputs["refused"]: the numbers that the message must name, None where the sizes divide; inputs["options"]: more
    keyword arguments.
    """
    sizes = inputs["refused"]
    try:
        layer = cls(*parts, group, **more, **inputs["options"])
    except ValueError as error:
        if sizes is None:
            raise
        named = all(str(size) in str(error) for size in sizes)
        return None, {"ValueError": "names the sizes" if named else f"does not name the sizes {sizes}: {error}"}
    return layer, None if sizes is None else {"ValueError": "none"}


def note_share(layer: nn.Module, start: int) -> None:
    """Marks how many numbers are in the layer's parameters, and what it holds in all beyond `start` bytes."""
    mark(OWNED, count=sum(p.numel() for p in layer.parameters()))
    mark(HELD, phase="built", bytes=held_bytes() - start)


def forward_and_back(layer: nn.Module, inputs: dict[str, Any]) -> dict[str, Any]:
    """y = layer(x), then back with the gradient inputs["dy"] → y, dx, and name → gradient, of parameters that have one."""
    x = inputs["x"].clone().requires_grad_()
    with span(FORWARD):
        y = layer(x)
    found = y.detach().clone()
    with span(BACKWARD):
        _WithGradient.apply(y, inputs["dy"].clone()).backward()
    return {"y": found, "dx": x.grad, "gradients": {
        name: p.grad for name, p in layer.named_parameters() if p.grad is not None}}
