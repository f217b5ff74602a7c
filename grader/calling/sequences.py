"""Inside a rank: the ways in which an exercise about pieces of a sequence is called, and what then stands in memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from utils.models.blocks import BlockGPT, TransformerBlock
from utils.models.tiny import same_start
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span

KEPT, NUMBERS, RANDOM_CHANGED = "bytes kept for backward", "numbers owned", "random state changed"
FORWARD, BACKWARD, REDUCE = "forward", "backward", "reduce"
SETTLE_S, POLL_S, QUIET_POLLS = 0.3, 0.005, 10


def call_sequence_function(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """function.apply(x, group) and the gradient of Σ weights·y; or that sizes were refused, by naming both."""
    x = _leaf(inputs["x"])
    n = dist.get_world_size(group)
    try:
        with span(FORWARD):
            y = function.apply(x, group)
    except ValueError as error:
        return {"refused": all(str(size) in str(error) for size in (len(x), n))}
    if y.shape != inputs["weights"].shape:
        return {"y": y, "dx": None}
    with span(BACKWARD):
        (y * inputs["weights"]).sum().backward()
    return {"y": y, "dx": x.grad}


def call_gather_linear(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """function.apply(x, weight, bias, group) → y and three gradients; marks what stands between forward and backward."""
    x, weight, bias = (_leaf(inputs[name]) for name in ("x", "weight", "bias"))
    start = held_bytes()
    with span(FORWARD):
        y = function.apply(x, weight, bias, group)
    mark(KEPT, bytes=settled_bytes(start, y.nbytes + inputs["x"].nbytes) - y.nbytes)
    if y.shape != inputs["weights"].shape:
        return {"y": y, "dx": None, "dweight": None, "dbias": None}
    with span(BACKWARD):
        (y * inputs["weights"]).sum().backward()
    return {"y": y, "dx": x.grad, "dweight": weight.grad, "dbias": bias.grad}


def call_local_dropout(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(x, p, seed, group) twice → both results and the gradient of Σ weights·y; marks a random state that has changed."""
    x, state = _leaf(inputs["x"]), torch.get_rng_state()
    y = fn(x, inputs["p"], inputs["seed"], group)
    again = fn(inputs["x"].clone(), inputs["p"], inputs["seed"], group)
    if not torch.equal(state, torch.get_rng_state()):
        mark(RANDOM_CHANGED)
    (y * inputs["weights"]).sum().backward()
    return {"y": y, "again": again, "dx": x.grad}


def call_reduce_replicated(fn: Callable, inputs: dict[str, Any], group) -> list[Tensor | None]:
    """fn(parameters, group) on parameters that have gradients, or none → the gradients afterwards."""
    parameters = [nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for shape in inputs["shapes"]]
    for p, gradient in zip(parameters, inputs["gradients"], strict=True):
        p.grad = None if gradient is None else gradient.clone()
    fn(parameters, group)
    return [p.grad for p in parameters]


def call_sequence_block(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """wrapped = cls(block, group); wrapped(x, seed), backward, reduce_gradients() → y, dx and the gradients by name."""
    block = make_block(inputs)
    x = _leaf(inputs["x"])
    try:
        wrapped = cls(block, group)
    except ValueError as error:
        return {"refused": all(str(size) in str(error) for size in (block.n_heads, dist.get_world_size(group)))}
    mark(NUMBERS, count=sum(p.numel() for p in wrapped.parameters()))
    start = held_bytes()
    with span(FORWARD):
        y = wrapped(x, inputs["seed"])
    mark(KEPT, bytes=settled_bytes(start, 0) - y.nbytes)
    with span(BACKWARD):
        (y * inputs["weights"]).sum().backward()
    with span(REDUCE):
        wrapped.reduce_gradients()
    return {"y": y, "dx": x.grad, "gradients": _gradients(wrapped.block)}


def call_sequence_gpt(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """model = cls(plain, group); steps of loss(tokens, targets), backward, reduce_gradients() and SGD → each rank's losses,
    the gradients of the first step by the plain model's names, and the parameters at the end."""
    plain = make_gpt(inputs)
    names = [name for name, _ in plain.named_parameters()]
    try:
        model = cls(plain, group)
        losses, first = [], {}
        mark(NUMBERS, count=sum(p.numel() for p in model.parameters()))
        optimizer = torch.optim.SGD(model.parameters(), lr=inputs["lr"])
        for tokens, targets in zip(inputs["tokens"], inputs["targets"], strict=True):
            optimizer.zero_grad()
            with span(FORWARD):
                loss = model.loss(tokens, targets)
            with span(BACKWARD):
                loss.backward()
            with span(REDUCE):
                model.reduce_gradients()
            first = first or {name: g for name, g in _gradients(model).items() if name in names}
            optimizer.step()
            losses.append(loss.detach())
    except ValueError as error:
        return {"refused": all(str(size) in str(error) for size in (len(inputs["tokens"][0]), dist.get_world_size(group)))}
    named = {_plain_name(name): p.detach() for name, p in model.named_parameters()}
    return {"losses": losses, "gradients": first, "parameters": {name: named[name] for name in names if name in named}}


def make_block(inputs: dict[str, Any]) -> TransformerBlock:
    """The plain block of a case, its LayerNorms not at their start, in float64 unless the case says otherwise."""
    block = same_start(TransformerBlock, inputs["block_seed"], dim=inputs["dim"], n_heads=inputs["heads"], p=inputs["p"])
    return _stirred(block, inputs["block_seed"]).to(getattr(torch, inputs.get("dtype", "float64")))


def make_gpt(inputs: dict[str, Any]) -> BlockGPT:
    """The plain GPT of a case."""
    model = same_start(BlockGPT, inputs["model_seed"], length=inputs["length"], dim=inputs["dim"],
                       n_layers=inputs["layers"], n_heads=inputs["heads"])
    return _stirred(model, inputs["model_seed"]).double()


def settled_bytes(start: int, enough: int) -> int:
    """Bytes held beyond `start`, once the transport has let go of what it sent: it does so a moment after the wait."""
    deadline_s, least, quiet = time.monotonic() + SETTLE_S, held_bytes() - start, 0
    while least > enough and quiet < QUIET_POLLS and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
        now = held_bytes() - start
        least, quiet = (now, 0) if now < least else (least, quiet + 1)
    return least


def _stirred(module: nn.Module, seed: int) -> nn.Module:
    """LayerNorm's ones and zeros, and biases, would hide mistakes."""
    numbers = torch.Generator().manual_seed(seed)
    for p in module.parameters():
        if p.dim() == 1:
            p.data.add_(torch.randn(p.shape, generator=numbers) / 5)
    return module


def _leaf(x: Tensor) -> Tensor:
    return x.clone().requires_grad_()


def _gradients(module: nn.Module) -> dict[str, Any]:
    return {_plain_name(name): None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()}


def _plain_name(name: str) -> str:
    """blocks.0.block.up.weight → blocks.0.up.weight, as the plain model has it."""
    return name.replace(".block.", ".")
