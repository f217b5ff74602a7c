"""Inside a rank: what exercises about split layers share: what is to be split, refusals, one pass each way, marks."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.sealing import unseal, with_state
from grader.calling.watching_inputs import watched
from grader.calling.weighing import END, weigh
from grader.evidence.case import REFUSED
from utils.costs.flops import FlopCounter
from utils.models.tiny import TinyGPT, same_start
from utils.trace.memory import bytes_behind, held_bytes, tensors_in
from utils.trace.spans import mark, span

FORWARD, BACKWARD = "forward", "backward"
OWN_NUMBERS, HELD, KEPT_ALIVE = "own numbers", "bytes held", "bytes kept alive"
WORK = "FLOPs"
MASK = "mask drawn"
SHARED = "memory shared with the whole"
NO_PART = "was made without"
BLOCK_WEIGHT = 15.0  # in the blocks of a GPT, times the usual standard deviation of 0.02


class _Loss(torch.autograd.Function):
    """A number whose gradient for y is the very tensor dy."""

    @staticmethod
    def forward(ctx, y: Tensor, dy: Tensor) -> Tensor:
        ctx.dy = dy
        return y.new_zeros(())

    @staticmethod
    def backward(ctx, dloss: Tensor) -> tuple[Tensor, None]:
        return ctx.dy, None


def go_back(y: Tensor, dy: Tensor) -> None:
    """As y.backward(dy), which in a fresh process first imports sympy, for a third of a second."""
    _Loss.apply(y, dy).backward()


def call_conjugate(function: type[torch.autograd.Function], inputs: dict[str, Any], group, *others) -> dict[str, Any]:
    """y = function.apply(x, group), then back with the gradient dy → y, dx; or which of the sizes to be refused were named.

    Marks whether x, −x or dy was changed on the way. A y of another shape than dy's has no way back.

    Between the two it is applied to −x, which needs no gradient, as in another layer, in another group if one is given: what
    the first call gave and kept must not change.
    """

    def both_ways(x: Tensor, dy: Tensor, another: Tensor, group) -> dict[str, Any]:
        x.requires_grad_()
        with span(FORWARD):
            y = built(lambda: function.apply(x, group), inputs.get("refused"))
        if not isinstance(y, Tensor):
            return y
        function.apply(another, *(others or (group,)))
        if y.shape != dy.shape:
            return {"y": y, "dx": None}
        y_before_backward = y.detach().clone()
        with span(BACKWARD):
            go_back(y, dy)  # hands over this very tensor, no copy: whether it is changed on the way shows
        return {"y": y_before_backward, "dx": x.grad}

    x, dy = (laid_out(inputs[name], inputs.get("transposed", False)) for name in ("x", "dy"))
    return watched(both_ways, {"x": x, "dy": dy, "another x": -x}, group)


def laid_out(tensor: Tensor, transposed: bool) -> Tensor:
    """A copy; if asked for with its first dim's numbers next to each other in memory, so that it is not contiguous."""
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if transposed else tensor.clone()


def call_split_linear(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """layer = cls(linear, group) on a whole linear layer, then forward and backward → y, dx, and the gradients by name.

    Without a bias in eval(), which changes nothing: gradients may be asked for there as well.
    """
    def make() -> nn.Module:
        layer = cls(linear_of(inputs["linear"]), group, **inputs["options"])
        return layer.eval() if inputs["linear"]["bias"] is None and isinstance(layer, nn.Module) else layer

    return call_split_layer(make, inputs, "weight", "bias")


def call_split_layer(make: Callable[[], nn.Module], inputs: dict[str, Any], *names: str) -> dict[str, Any]:
    """layer = make(), then forward with x and back with the gradient dy → y, dx, and the gradients by name.

    Marks how many numbers are in the layer's parameters, and what it holds in all. A y that is not of dy's shape has no
    way back. names: what the layer must have, be it None.
    """
    start = held_bytes()
    layer = built(make, inputs["refused"])
    if not isinstance(layer, nn.Module):
        return layer
    at_full_size(layer)
    unseal(layer, inputs)
    parts_of(layer, *names)
    for whole in tensors_in([value for name, value in inputs.items() if name not in ("x", "dy")]):
        whole.zero_()  # what was cut is known to nobody who did not keep it
    mark_parameters(layer, start)
    x = laid_out(inputs["x"], transposed=inputs["x"].dim() > 2).requires_grad_(inputs.get("x_needs_gradient", True))
    with FlopCounter() as counter, span(FORWARD):
        y = layer(x)
    y_before_backward = y.detach().clone()
    if y.shape == inputs["dy"].shape:
        with counter, span(BACKWARD):
            go_back(y, inputs["dy"].clone())
    mark(WORK, count=counter.total)
    gradients = {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}
    weigh(inputs, END)
    return {"y": y_before_backward, "dx": x.grad, "gradients": gradients}


def parts_of(layer: nn.Module, *names: str) -> dict[str, Any]:
    """Name, as in "up.weight" → that part of a layer.  Raises: AttributeError in words of its own if there is none."""
    found = {}
    for name in names:
        try:
            found[name] = operator.attrgetter(name)(layer)
        except AttributeError:
            raise AttributeError(f"{type(layer).__name__} {NO_PART} {name}") from None
    return found


def forward_and_back(forward: Callable[[], Tensor], weights: Tensor) -> Tensor:
    """y = forward(), and back with the gradient of Σ weights·y."""
    with span(FORWARD):
        y = forward()
    with span(BACKWARD):
        (y * weights).sum().backward()
    return y


def linear_of(whole: dict[str, Tensor | None]) -> nn.Linear:
    """A whole nn.Linear with halves of these numbers: "weight" (O, I), "bias" (O,) or None. See at_full_size."""
    n_out, n_in = whole["weight"].shape
    linear = nn.Linear(n_in, n_out, bias=whole["bias"] is not None, dtype=whole["weight"].dtype)
    linear.load_state_dict({name: tensor for name, tensor in whole.items() if tensor is not None})
    return halved(linear)


def halved(module: nn.Module) -> nn.Module:
    """The module with half of each parameter, exactly."""
    with torch.no_grad():
        for p in module.parameters():
            p /= 2
    return module


def at_full_size(module: nn.Module) -> None:
    """Twice each parameter of what was made from halves: whoever computes with copies of his own has the halves still."""
    with torch.no_grad():
        for p in module.parameters():
            p *= 2


def make_gpt(inputs: dict[str, Any]) -> TinyGPT:
    """The case's model; its blocks weigh more than at a usual start, no bias is 0 and no scale 1: whatever is lost shows."""
    model = same_start(TinyGPT, inputs["seed"], **inputs["model"]).to(getattr(torch, inputs["dtype"]))
    generator = torch.Generator().manual_seed(inputs["seed"])
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p += 0.1 * torch.randn(p.shape, generator=generator).to(p.dtype)
            elif name.startswith("blocks."):
                p *= BLOCK_WEIGHT
    return with_state(model, inputs)


def built(make: Callable[[], Any], sizes: list[int] | None) -> Any:
    """What make() returns. In a case that is to be refused, which of these sizes a ValueError named, none without one."""
    try:
        module = make()
    except ValueError as error:
        if sizes is None:
            raise
        return {REFUSED: [size for size in sizes if str(size) in str(error)]}
    return module if sizes is None else {REFUSED: []}


def mark_parameters(module: nn.Module, start: int) -> None:
    """Marks how many numbers the parameters have, how many bytes they keep alive, and what is held since `start`."""
    parameters = list(module.parameters())
    mark(OWN_NUMBERS, count=sum(p.numel() for p in parameters))
    mark(KEPT_ALIVE, bytes=bytes_behind(parameters))
    mark(HELD, bytes=held_bytes() - start)
