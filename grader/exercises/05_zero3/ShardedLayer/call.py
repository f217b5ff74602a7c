"""How a rank calls ShardedLayer."""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from grader.calling.letting_go import settled_bytes
from grader.calling.sharding import (
    FREED,
    FREED_BYTES,
    HELD,
    REDUCING,
    copied_pieces,
    dtype_of,
    require_rest,
    require_slices,
)
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Two rounds on one layer: gather, forward and backward, reduce, finish; alone, it is reduced without gradients in the
    end → what its parameters are in each state.
    """
    originals = [p + 0 for p in inputs["parameters"]]  # new tensors, so that they are counted from now on
    rounds = [[None if g is None else g + 0 for g in gradients] for gradients in inputs["gradients"]]
    parameters = [nn.Parameter(p.clone()) for p in originals]
    layer = cls(parameters, group, dtype_of(inputs["compute_dtype"]))
    require_slices(parameters)
    shapes = [p.shape for p in parameters]
    states: dict[str, Any] = {"pieces": copied_pieces(p.data for p in parameters)}
    for number, gradients in enumerate(rounds):
        start = held_bytes()
        layer.gather()
        states[f"whole, round {number}"] = [p.data.clone() for p in parameters]
        start += sum(p.nbytes for p in states[f"whole, round {number}"])
        loss = sum((p * g.to(p.dtype)).sum() for p, g in zip(parameters, gradients, strict=True) if g is not None)
        if isinstance(loss, Tensor):  # on some ranks no parameter has a gradient
            loss.backward()
        del loss
        layer.reduce()
        require_rest("reduce()", parameters, shapes)
        with span(REDUCING):
            pass
        layer.finish()
        layer.finish()
        mark(HELD, phase=FREED, bytes=settled_bytes(start, FREED_BYTES))
        states[f"gradients, round {number}"] = copied_pieces(p.grad for p in parameters)
        states[f"gradients there, round {number}"] = [p.grad is not None for p in parameters]
    if dist.get_world_size(group) == 1:  # where no gather is counted
        for p in parameters:
            p.grad = None
        layer.gather()
        layer.reduce()
        require_rest("reduce() without gradients", parameters, shapes)
        layer.finish()
    return states
