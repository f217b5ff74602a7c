"""How a rank calls SharedHeads."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from grader.calling.sealing import unseal
from grader.calling.splitting import (
    BACKWARD,
    FORWARD,
    WORK,
    at_full_size,
    built,
    go_back,
    linear_of,
    mark_parameters,
    parts_of,
)
from utils.costs.flops import FlopCounter
from utils.trace.memory import held_bytes, tensors_in
from utils.trace.spans import mark, span

LEFT = 1.0  # each gradient that is there from an earlier pass


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """layer = cls(linear, n_kv_heads, group), forward and back with this rank's dy → own parameters, y, dx, gradients.

    The gradients are what this pass adds to those that are there.
    """
    start = held_bytes()
    layer = built(lambda: cls(linear_of(inputs["linear"]), inputs["n_kv_heads"], group), inputs["refused"])
    if not isinstance(layer, nn.Module):
        return layer
    at_full_size(layer)
    unseal(layer, inputs)
    for whole in tensors_in(inputs["linear"]):
        whole.zero_()  # what was cut is known to nobody who did not keep it
    mark_parameters(layer, start)
    own = parts_of(layer, "weight", "bias")
    own_numbers = {name: None if p is None else p.detach().clone() for name, p in own.items()}
    before = LEFT if inputs["x"].dtype == torch.float64 else 0.0  # which loses no digits of what comes
    for p in own.values():
        if before and p is not None:
            p.grad = torch.full_like(p, before)
    x = inputs["x"].clone().requires_grad_()
    with FlopCounter() as counter, span(FORWARD):
        y = layer(x)
    y_before_backward = y.detach().clone()
    if y.shape == inputs["dy"].shape:
        with counter, span(BACKWARD):
            go_back(y, inputs["dy"].clone())
    mark(WORK, count=counter.total)
    gradients = {name: None if p is None or p.grad is None else p.grad - before for name, p in own.items()}
    return {"parameters": own_numbers, "y": y_before_backward, "dx": x.grad, "gradients": gradients}
