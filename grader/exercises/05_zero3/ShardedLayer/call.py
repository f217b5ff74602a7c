"""How a rank calls ShardedLayer."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.sharding import BETWEEN, FREED_BYTES, HELD, dtype_of, settled
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Two rounds of start_gather, gather, gradients, reduce, finish on one layer → what its parameters are in each state."""
    originals = [p + 0 for p in inputs["parameters"]]  # new tensors, so that they are counted from now on
    rounds = [[None if g is None else g + 0 for g in gradients] for gradients in inputs["gradients"]]
    start = held_bytes()
    parameters = [nn.Parameter(p.clone()) for p in originals]
    layer = cls(parameters, group, dtype_of(inputs["compute_dtype"]))
    mark(HELD, phase="at rest", bytes=held_bytes() - start)
    states: dict[str, Any] = {"pieces": _pieces(p.data.clone() for p in parameters)}
    for number, gradients in enumerate(rounds):
        start = held_bytes()
        layer.start_gather()
        with span(BETWEEN):
            pass
        layer.gather()
        if number == 0:
            states["whole"] = [p.data.clone() for p in parameters]
            start += sum(p.nbytes for p in states["whole"])
        states[f"gradients while whole, round {number}"] = [p.grad for p in parameters]
        for p, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                p.grad = gradient.to(p.dtype)
        layer.reduce()
        layer.finish()
        mark(HELD, phase="freed", bytes=settled(start, FREED_BYTES))
        states[f"gradients, round {number}"] = _pieces(p.grad for p in parameters)
    pairs = zip(states["pieces"], _pieces(p.data for p in parameters), strict=True)
    states["pieces as before"] = all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)
    return states


def _pieces(pieces: Iterable[Tensor | None]) -> list[Tensor | None]:
    """None stands for an empty piece too."""
    return [None if piece is None or not piece.numel() else piece for piece in pieces]
