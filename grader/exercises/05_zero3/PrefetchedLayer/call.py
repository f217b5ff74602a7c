"""How a rank calls PrefetchedLayer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from grader.calling.letting_go import settled_bytes
from grader.calling.sharding import (
    BETWEEN,
    FREED,
    FREED_BYTES,
    GIVEN_UP,
    HELD,
    ROUNDS,
    copied_pieces,
    dtype_of,
    require_memory,
    require_rest,
    require_slices,
    same_pieces,
)
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Two rounds on one layer: start_gather, gather, free, and the same again; then a step that turns the signs. After the
    first round a gather is started that isn't needed, before the step → what its parameters are in each state.
    """
    originals = [p + 0 for p in inputs["parameters"]]
    parameters = [nn.Parameter(p.clone()) for p in originals]
    layer = cls(parameters, group, dtype_of(inputs["compute_dtype"]))
    require_slices(parameters)
    shapes = [p.shape for p in parameters]
    states: dict[str, Any] = {"pieces": copied_pieces(p.data for p in parameters)}
    for number in range(ROUNDS):
        parameters[-1].grad = torch.zeros_like(parameters[-1].data)
        layer.start_gather()
        layer.start_gather()
        with span(BETWEEN):
            pass
        if parameters[-1].grad is None:
            raise RuntimeError("start_gather() changed p.grad")
        require_rest("start_gather()", parameters, shapes)
        layer.gather()
        layer.start_gather()
        views = [p.detach().view(-1) for p in parameters]
        states[f"whole, round {number}"] = [p.data.clone() for p in parameters]
        layer.free()
        require_rest("free()", parameters, shapes)
        layer.gather()
        require_memory(views)
        states[f"gathered again, round {number}"] = [
            view.view(p.shape).clone() for view, p in zip(views, parameters, strict=True)]
        layer.free()
        states[f"pieces, round {number}"] = copied_pieces(p.data for p in parameters)
        if number == 0:
            _give_up(layer, parameters)
            require_rest("free()", parameters, shapes)
        for p in parameters:
            p.data.neg_()
    return {**states, "pieces as before": same_pieces(states["pieces"], copied_pieces(p.data for p in parameters))}


def _give_up(layer: Any, parameters: list[nn.Parameter]) -> None:
    """Start a gather that isn't needed, and free the layer; meanwhile gradients are forgotten.

    Raises: RuntimeError if they come back.
    """
    for p in parameters:
        p.grad = p.data.clone()
    start = held_bytes()
    layer.start_gather()
    for p in parameters:
        p.grad = None  # nothing is put aside yet
    layer.free()
    mark(GIVEN_UP)
    mark(HELD, phase=FREED, bytes=settled_bytes(start, FREED_BYTES))
    if any(p.grad is not None for p in parameters):
        raise RuntimeError("start_gather() changed p.grad, in the end")
