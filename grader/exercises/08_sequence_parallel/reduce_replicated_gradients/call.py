"""How a rank calls reduce_replicated_gradients."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WEIGHT = 0.375  # of every parameter: gradients are never this


def call(fn: Callable, inputs: dict[str, Any], group) -> list[Tensor | None]:
    """fn(parameters, group) on parameters that have gradients, or none → the gradients afterwards.

    With "before": these are the gradients of a step before; then the same tensors hold those of this step, as after
    zero_grad(set_to_none=False).
    """
    parameters = [nn.Parameter(torch.full(shape, WEIGHT, dtype=torch.float64)) for shape in inputs["shapes"]]
    for p, gradient in zip(parameters, inputs.get("before", inputs["gradients"]), strict=True):
        p.grad = None if gradient is None else gradient.clone()
    fn(parameters, group)
    if "before" in inputs:
        for p, gradient in zip(parameters, inputs["gradients"], strict=True):
            p.grad.copy_(gradient)
        fn(parameters, group)
    return [p.grad for p in parameters]
