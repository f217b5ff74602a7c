"""Inside a rank: what the exercises about split layers share: whole layers to split, refusals, one pass each way, marks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.watching_inputs import INPUT_CHANGED
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span

FORWARD, BACKWARD = "forward", "backward"
OWN_NUMBERS, HELD, KEPT_ALIVE = "own numbers", "bytes held", "bytes kept alive"
MASK = "mask drawn"
REFUSED = "ValueError that names"


class WithGradient(torch.autograd.Function):
    """Stands behind a function under test: hands it this very tensor as the gradient of its output."""

    @staticmethod
    def forward(ctx, y: Tensor, dy: Tensor) -> Tensor:
        ctx.dy = dy
        return y.new_zeros(())

    @staticmethod
    def backward(ctx, _: Tensor) -> tuple[Tensor, None]:
        return ctx.dy, None


def call_conjugate(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """y = function.apply(x, group), then back with the gradient dy; marks whether x or dy was changed on the way."""
    x, dy = (_laid_out(inputs[name], inputs["transposed"]) for name in ("x", "dy"))
    before = x.clone(), dy.clone()
    leaf = x.requires_grad_()
    with span(FORWARD):
        y = function.apply(leaf, group)
    y_before_backward = y.detach().clone()
    with span(BACKWARD):
        WithGradient.apply(y, dy).backward()
    for name, now, was in zip(("x", "dy"), (leaf.detach(), dy), before, strict=True):
        if not torch.equal(now, was):
            mark(INPUT_CHANGED, parameter=name)
    return {"y": y_before_backward, "dx": leaf.grad}


def _laid_out(tensor: Tensor, transposed: bool) -> Tensor:
    """A fresh copy; its numbers lie in memory column by column if asked for."""
    return tensor.T.clone().T if transposed else tensor.clone()


def call_split_linear(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """layer = cls(linear, group) on a whole linear layer, then forward and backward → y, dx, and the gradients by name."""
    return call_split_layer(lambda: cls(linear_of(inputs["linear"]), group, **inputs["options"]), inputs)


def call_split_layer(make: Callable[[], nn.Module], inputs: dict[str, Any]) -> dict[str, Any]:
    """layer = make(), then forward with x and back with the gradient dy → y, dx, and the gradients by name.

    Marks how many numbers are in the layer's parameters, and what it holds in all. A y that is not of dy's shape has no
    way back.
    """
    start = held_bytes()
    layer = built(make, inputs["refused"])
    if not isinstance(layer, nn.Module):
        return layer
    mark(OWN_NUMBERS, count=sum(p.numel() for p in layer.parameters()))
    mark(HELD, bytes=held_bytes() - start)
    x = inputs["x"].clone().requires_grad_()
    with span(FORWARD):
        y = layer(x)
    y_before_backward = y.detach().clone()
    if y.shape != inputs["dy"].shape:
        return {"y": y_before_backward, "dx": None, "gradients": {}}
    with span(BACKWARD):
        WithGradient.apply(y, inputs["dy"].clone()).backward()
    return {"y": y_before_backward, "dx": x.grad, "gradients": {
        name: p.grad for name, p in layer.named_parameters() if p.grad is not None}}


def linear_of(whole: dict[str, Tensor | None]) -> nn.Linear:
    """A whole nn.Linear with copies of these numbers: "weight" (O, I), "bias" (O,) or None."""
    weight, bias = whole["weight"], whole["bias"]
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return linear


def built(make: Callable[[], Any], sizes: list[int] | None) -> Any:
    """What make() returns. In a case that is to be refused, which of these sizes a ValueError named, none without one."""
    try:
        module = make()
    except ValueError as error:
        if sizes is None:
            raise
        return {REFUSED: [size for size in sizes if str(size) in str(error)]}
    return module if sizes is None else {REFUSED: []}


def mark_parameters(module: nn.Module) -> None:
    """Marks how many numbers the parameters have, and how many bytes they keep alive."""
    parameters = list(module.parameters())
    storages = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in parameters}
    mark(OWN_NUMBERS, count=sum(p.numel() for p in parameters))
    mark(KEPT_ALIVE, bytes=sum(storages.values()))
