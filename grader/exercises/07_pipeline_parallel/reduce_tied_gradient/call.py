"""How a rank calls reduce_tied_gradient."""

from collections.abc import Callable
from typing import Any

from torch import nn


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(weight, group) → the weight's gradient, and the weight."""
    if inputs["weight"] is None:
        fn(None, group)
        return {"gradient": None, "weight": None}
    weight = nn.Parameter(inputs["weight"].clone())
    weight.grad = inputs["gradient"].clone()
    fn(weight, group)
    return {"gradient": weight.grad, "weight": weight.detach()}
