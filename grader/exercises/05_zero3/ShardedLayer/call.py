"""How a rank calls ShardedLayer."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from grader.calling.letting_go import settled_bytes
from grader.calling.sharding import BETWEEN, FREED_BYTES, GIVEN_UP, HELD, REDUCING, copied_pieces, dtype_of
from grader.calling.weighing import END, weigh
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Two rounds on one layer, as a wrapper makes them: start_gather, gather, forward, free, gather, backward, reduce,
    finish; then a step that turns the signs (after the first round, a gather is given up before it); alone, it is whole for
    nothing in the end → what its parameters are in each state.
    """
    originals = [p + 0 for p in inputs["parameters"]]  # new tensors, so that they are counted from now on
    rounds = [[None if g is None else g + 0 for g in gradients] for gradients in inputs["gradients"]]
    start = held_bytes()
    parameters = [nn.Parameter(p.clone()) for p in originals]
    layer = cls(parameters, group, dtype_of(inputs["compute_dtype"]))
    mark(HELD, phase="at rest", bytes=held_bytes() - start)
    shapes = [p.shape for p in parameters]
    states: dict[str, Any] = {"pieces": copied_pieces(p.data for p in parameters)}
    for number, gradients in enumerate(rounds):
        start = held_bytes()
        there = [p.grad is None for p in parameters]
        layer.start_gather()
        with span(BETWEEN):
            pass
        if there != [p.grad is None for p in parameters]:
            raise RuntimeError("start_gather() changed p.grad")
        layer.gather()
        layer.gather()
        states[f"whole, round {number}"] = [p.data.clone() for p in parameters]
        start += sum(p.nbytes for p in states[f"whole, round {number}"])
        states[f"gradients while whole, round {number}"] = _copies(p.grad for p in parameters)
        used = [(p.view(-1), g.to(p.dtype, copy=True).view(-1).requires_grad_())
                for p, g in zip(parameters, gradients, strict=True) if g is not None]
        loss = sum((view * weights).sum() for view, weights in used)  # the weights are the gradient of the view
        layer.free()
        layer.free()
        _at_rest("free()", parameters, shapes)
        mark(HELD, phase="freed", bytes=settled_bytes(start + sum(weights.nbytes for _, weights in used), FREED_BYTES))
        layer.gather()
        if not all(view.untyped_storage().nbytes() for view, _ in used):  # torch would crash
            raise RuntimeError("a view that autograd kept of a parameter lies in a storage of size 0 after gather()")
        loss.backward()
        layer.gather()
        del loss, used
        layer.reduce()
        _at_rest("reduce()", parameters, shapes)
        with span(REDUCING):
            pass
        states[f"pieces, round {number}"] = copied_pieces(p.data for p in parameters)
        layer.finish()
        mark(HELD, phase="freed", bytes=settled_bytes(start, FREED_BYTES))
        states[f"gradients, round {number}"] = copied_pieces(p.grad for p in parameters)
        states[f"gradients there, round {number}"] = [p.grad is not None for p in parameters]
        weigh(inputs, END)
        if number == 0:  # a gather that was begun and is not needed after all
            kept = [p.grad for p in parameters]
            layer.start_gather()
            for p in parameters:
                p.grad = None  # nothing is put aside yet
            layer.free()
            mark(GIVEN_UP)
            _at_rest("free()", parameters, shapes)
            if any(p.grad is not None for p in parameters):
                raise RuntimeError("start_gather() changed p.grad, in the end")
            for p, gradient in zip(parameters, kept, strict=True):
                p.grad = gradient
        for p in parameters:
            p.data.neg_()
    for p in parameters:
        p.grad = None  # as the optimizer's zero_grad() does
    layer.free()
    if any(p.grad is not None for p in parameters):
        raise RuntimeError("free() at rest changed p.grad")
    if dist.get_world_size(group) == 1:  # where no gather is counted
        layer.gather()
        layer.reduce()
        _at_rest("reduce() without gradients", parameters, shapes)
        layer.finish()
    pairs = zip(states["pieces"], copied_pieces(p.data for p in parameters), strict=True)
    states["pieces as before"] = all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)
    return states


def _at_rest(call: str, parameters: Sequence[Tensor], shapes: Sequence[torch.Size]) -> None:
    """Raises: RuntimeError where a parameter has not the shape again that it had at rest."""
    for p, shape in zip(parameters, shapes, strict=True):
        if p.shape != shape:
            raise RuntimeError(f"not at rest after {call}: p.data has shape {list(p.shape)}, its piece {list(shape)}")


def _copies(values: Iterable[Tensor | None]) -> list[Tensor | None]:
    return [None if value is None else value.clone() for value in values]
