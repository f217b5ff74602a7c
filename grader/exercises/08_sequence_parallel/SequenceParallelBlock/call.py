"""How a rank calls SequenceParallelBlock."""

from collections.abc import Callable
from typing import Any

import torch

from grader.calling.letting_go import settled_bytes
from grader.calling.sealing import unseal
from grader.calling.sequences import (
    BACKWARD,
    FORWARD,
    KEPT,
    NUMBERS,
    REDUCE,
    gradients_by_name,
    leaf,
    make_block,
)
from grader.calling.splitting import WORK, built
from grader.calling.training import held_beside
from grader.calling.weighing import BETWEEN_PASSES, weigh
from utils.costs.flops import FlopCounter
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """wrapped = cls(block, group); wrapped(x), backward, reduce_gradients() → y, dx and the gradients by name."""
    whole, x = [make_block(inputs)], leaf(inputs["x"])
    before = held_beside(whole[0])
    wrapped = built(lambda: cls(whole.pop(), group), inputs["refused"])
    if isinstance(wrapped, dict):
        return wrapped
    unseal(wrapped.block, inputs)
    wrapped.train(inputs["training"])  # as a loop does that trains and evaluates in turn
    mark(NUMBERS, count=sum(p.numel() for p in wrapped.parameters()))
    start = held_bytes() - (held_beside(wrapped) - before)  # what else it holds, it has been keeping since it was made
    torch.manual_seed(inputs["seed"])  # each rank's own, so its dropouts draw masks of its own
    with FlopCounter() as counter, span(FORWARD):
        y = wrapped(x)
    mark(KEPT, bytes=settled_bytes(start) - y.nbytes)
    weigh(inputs, BETWEEN_PASSES)
    with counter, span(BACKWARD):
        (y * inputs["weights"]).sum().backward()
    mark(WORK, count=counter.total)
    with span(REDUCE):
        wrapped.reduce_gradients()
    return {"y": y, "dx": x.grad, "gradients": gradients_by_name(wrapped.block)}
