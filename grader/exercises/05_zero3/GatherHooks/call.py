"""How a rank calls GatherHooks."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from grader.calling.sharding import BACKWARD, OWNED, copied_pieces, watch_layers
from grader.calling.training import held_beside, make_optimizer
from grader.calling.weighing import END, weigh
from grader.calling.zoo import build, loss_rows
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """wrapped = fn(module, group); steps of `micro` passes each → name → this rank's pieces, of the first step's gradients
    and of the parameters at the end. Before them, one pass without gradients.
    """
    module = build(inputs["model"], inputs["seed"])
    names, parameters = zip(*module.named_parameters(), strict=True)
    numbers: dict[str, int] = {}
    watch_layers(module, numbers)
    before = held_beside(module)
    wrapped, gradients = fn(module, group), None
    kept = held_beside(module) - before  # beside the pieces, from the beginning
    _mark_rest(parameters)
    numbers["start"] = held_bytes() - kept
    with torch.no_grad():
        wrapped(inputs["xs"][0])
    _mark_rest(parameters)
    optimizer = make_optimizer(inputs, parameters)
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True), 1):
        numbers["start"] = held_bytes() - kept
        loss = loss_rows(wrapped(x), y).mean() / inputs["micro"]
        with span(BACKWARD):
            loss.backward()
        _mark_rest(parameters)
        if number % inputs["micro"] == 0:
            gradients = gradients or copied_pieces(p.grad for p in parameters)
            optimizer.step()
            optimizer.zero_grad()
    weigh(inputs, END)
    pieces = copied_pieces(p.data for p in parameters)
    return {"gradients": dict(zip(names, gradients, strict=True)), "parameters": dict(zip(names, pieces, strict=True))}


def _mark_rest(parameters: Sequence[nn.Parameter]) -> None:
    """How many numbers they hold, and whether all are 1-D, as pieces are."""
    mark(OWNED, count=sum(p.numel() for p in parameters), flat=all(p.ndim == 1 for p in parameters))
