"""How a rank calls GatheredLayer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from grader.calling.letting_go import settled_bytes
from grader.calling.sharding import (
    AT_REST,
    FREED,
    FREED_BYTES,
    HELD,
    ROUNDS,
    copied_pieces,
    copies,
    dtype_of,
    require_memory,
    require_rest,
    require_slices,
    same_pieces,
)
from grader.calling.weighing import END, weigh
from utils.trace.memory import held_bytes
from utils.trace.spans import mark


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Two rounds on one layer: gather, compute with views of the parameters, free, gather again, use the views in backward,
    free; after each a step that turns the signs → what its parameters are in each state.

    The last parameter has a gradient from before, of its slice.
    """
    originals = [p + 0 for p in inputs["parameters"]]  # new tensors, so that they are counted from now on
    start = held_bytes()
    parameters = [nn.Parameter(p.clone()) for p in originals]
    layer = cls(parameters, group, dtype_of(inputs["compute_dtype"]))
    mark(HELD, phase=AT_REST, bytes=held_bytes() - start)
    require_slices(parameters)
    shapes = [p.shape for p in parameters]
    states: dict[str, Any] = {"pieces": copied_pieces(p.data for p in parameters)}
    for number in range(ROUNDS):
        parameters[-1].grad = torch.full_like(parameters[-1].data, number + 1.0)
        start = held_bytes()
        layer.gather()
        layer.gather()
        states[f"whole, round {number}"] = [p.data.clone() for p in parameters]
        states[f"gradients while whole, round {number}"] = copies(p.grad for p in parameters)
        views = [p.detach().view(-1) for p in parameters]
        weights = [torch.zeros_like(view, requires_grad=True) for view in views]
        loss = sum((view * weight).sum() for view, weight in zip(views, weights, strict=True))
        start += sum(p.nbytes for p in states[f"whole, round {number}"]) + sum(weight.nbytes for weight in weights)
        layer.free()
        layer.free()
        require_rest("free()", parameters, shapes)
        mark(HELD, phase=FREED, bytes=settled_bytes(start, FREED_BYTES))
        layer.gather()
        require_memory(views)
        loss.backward()  # a weight's gradient is the view that autograd kept
        states[f"gathered again, round {number}"] = [
            weight.grad.view(p.shape) for weight, p in zip(weights, parameters, strict=True)]
        del loss, views, weights
        layer.free()
        states[f"pieces, round {number}"] = copied_pieces(p.data for p in parameters)
        states[f"gradients, round {number}"] = copied_pieces(p.grad for p in parameters)
        weigh(inputs, END)
        for p in parameters:
            p.data.neg_()
            p.grad = None  # as the optimizer's zero_grad() does
    layer.free()
    if any(p.grad is not None for p in parameters):
        raise RuntimeError("free() at rest changed p.grad")
    return {**states, "pieces as before": same_pieces(states["pieces"], copied_pieces(p.data for p in parameters))}
