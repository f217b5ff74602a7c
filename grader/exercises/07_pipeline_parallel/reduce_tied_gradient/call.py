"""How a rank calls reduce_tied_gradient."""

from collections.abc import Callable
from typing import Any

from torch import nn


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(weight, group) → the weight's gradient, and the weight; whether the gradient is still in the same place."""
    if inputs["weight"] is None:
        fn(None, group)
        return {"gradient": None, "weight": None, "in place": True}
    weight = nn.Parameter(inputs["weight"].clone())
    weight.grad = inputs["gradient"].clone()
    place = weight.grad.data_ptr()
    fn(weight, group)
    in_place = weight.grad is not None and weight.grad.data_ptr() == place
    return {"gradient": weight.grad, "weight": weight.detach(), "in place": in_place}
