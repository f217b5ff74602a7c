"""How a rank calls clip_gradient_norm."""

from collections.abc import Callable
from typing import Any

from torch import Tensor


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(gradient_C, max_norm, group), both in a case's units → what it returned, and the gradient, in these units."""
    unit = inputs.get("unit", 1.0)
    gradient_C = inputs["gradient_C"] * unit
    norm = fn(gradient_C, inputs["max_norm"] * unit, group)
    return {"norm": norm if isinstance(norm, Tensor) else float(norm) / unit, "gradient": gradient_C / unit}
