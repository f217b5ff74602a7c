"""Inside a rank: the ways in which an exercise about sharded parameters is called, and what then stands in memory."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.training import make_optimizer
from grader.calling.zoo import build, loss_rows
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span

HELD, OWNED, COMPUTED_IN, KEPT = "bytes held", "numbers owned", "computed in", "earlier layers kept"
FREED_BYTES, SETTLE_S = 900, 0.3
FORWARD, BACKWARD, BETWEEN = "forward", "backward", "between start_gather and gather"


def call_flat_shard(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(parameters, group) → the shard, and how many bytes it keeps alive."""
    shard_C = fn([nn.Parameter(one.clone()) for one in inputs["parameters"]], group)
    return {"shard": shard_C, "bytes kept alive": shard_C.untyped_storage().nbytes()}


def call_sharded_linear(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """A chain of layers y = tanh(function.apply(x, shard, n_out, group)) and its gradients; marks what stands after each."""
    x_BI = inputs["x"].clone().requires_grad_()
    shards, y_BO, start = [shard.clone().requires_grad_() for shard in inputs["shards"]], x_BI, held_bytes()
    for shard_C in shards:
        y_BO = torch.tanh(function.apply(y_BO, shard_C, inputs["n_out"], group))
        mark(HELD, phase=FORWARD, bytes=held_bytes() - start)
    with span(BACKWARD):
        (y_BO * inputs["weights"]).sum().backward()
    return {"y": y_BO, "dx": x_BI.grad, "dshards": [shard.grad for shard in shards]}


def call_gather_ahead(fn: Callable, inputs: dict[str, Any], group) -> Tensor:
    """fn(x, shards, compute, depth, group); marks how many layers before the present one still stand."""
    seen: list[weakref.ref] = []

    def compute(number: int, flat_P: Tensor, x_BD: Tensor) -> Tensor:
        mark(KEPT, layer=number, count=sum(one() is not None for one in seen))
        seen.append(weakref.ref(flat_P.untyped_storage()))
        with span(f"compute {number}"):
            dim = x_BD.shape[1]
            return torch.tanh(x_BD @ flat_P[:dim * dim].view(dim, dim) + number)

    return fn(inputs["x"].clone(), [shard.clone() for shard in inputs["shards"]], compute, inputs["depth"], group)


def call_sharded_layer(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Two rounds of start_gather, gather, gradients, reduce, finish on one layer → what its parameters are in each state."""
    originals = [one + 0 for one in inputs["parameters"]]  # new tensors, so that they are counted from now on
    rounds = [[None if one is None else one + 0 for one in each] for each in inputs["gradients"]]
    start = held_bytes()
    parameters = [nn.Parameter(one.clone()) for one in originals]
    layer = cls(parameters, group, _dtype(inputs["compute_dtype"]))
    mark(HELD, phase="at rest", bytes=held_bytes() - start)
    found: dict[str, Any] = {"pieces": _pieces(p.data.clone() for p in parameters)}
    for number, gradients in enumerate(rounds):
        start = held_bytes()
        layer.start_gather()
        with span(BETWEEN):
            pass
        layer.gather()
        if number == 0:
            found["whole"] = [p.data.clone() for p in parameters]
            start += sum(one.nbytes for one in found["whole"])
        found[f"gradients while whole, round {number}"] = [p.grad for p in parameters]
        for p, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                p.grad = gradient.to(p.dtype)
        layer.reduce()
        layer.finish()
        mark(HELD, phase="freed", bytes=settled(start, FREED_BYTES))
        found[f"gradients, round {number}"] = _pieces(p.grad for p in parameters)
    pairs = zip(found["pieces"], _pieces(p.data for p in parameters), strict=True)
    found["pieces as before"] = all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)
    return found


def call_fully_shard(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """wrapped = fn(module, compute_dtype, group); steps of `micro` passes each → the whole parameters at the end."""
    module = build(inputs["model"], inputs["seed"])
    numbers: dict[str, int] = {}
    _watch_layers(module, numbers)
    wrapped = fn(module, _dtype(inputs["compute_dtype"]), group, **inputs["wrapping"])
    mark(OWNED, count=sum(p.numel() for p in wrapped.parameters()))
    start = wrapped.full_parameters()
    trained = [p for p in wrapped.parameters() if p.requires_grad]
    optimizer = make_optimizer(inputs, trained) if trained else None
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True), 1):
        numbers["start"] = held_bytes()
        output = wrapped(x)
        mark(COMPUTED_IN, dtype=str(output.dtype))
        loss = loss_rows(output, y).mean() / inputs["micro"]
        with span(BACKWARD):
            if loss.requires_grad:
                loss.backward()
        wrapped.finish_gradient_synchronization()
        if number % inputs["micro"] == 0 and optimizer:
            optimizer.step()
            optimizer.zero_grad()
    return {"start": start, "parameters": wrapped.full_parameters()}


def _watch_layers(module: nn.Module, numbers: dict[str, int]) -> None:
    """Marks what is held beyond numbers["start"] as each Linear is done forward, and before its backward."""

    def note(phase: str) -> None:
        if "start" in numbers:
            mark(HELD, phase=phase, bytes=held_bytes() - numbers["start"])

    def after(layer, args, output) -> None:
        note(FORWARD)
        if output.requires_grad:
            output.register_hook(lambda gradient: note(BACKWARD))

    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(after)


def settled(start: int, enough: int) -> int:
    """Bytes held beyond `start`, once the transport has let go of what it sent: it does so a moment after the wait."""
    deadline_s = time.monotonic() + SETTLE_S
    while held_bytes() - start > enough and time.monotonic() < deadline_s:
        time.sleep(0.002)
    return held_bytes() - start


def _pieces(pieces: Iterable[Tensor | None]) -> list[Tensor | None]:
    """None stands for an empty piece too."""
    return [None if piece is None or not piece.numel() else piece for piece in pieces]


def _dtype(name: str | None) -> torch.dtype | None:
    return getattr(torch, name) if name else None
