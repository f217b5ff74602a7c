"""How a rank calls clip_gradient_norm."""

from collections.abc import Callable
from typing import Any


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(gradient_C, max_norm, group) → what it returned, and the gradient."""
    gradient_C = inputs["gradient_C"].clone()
    norm = fn(gradient_C, inputs["max_norm"], group)
    return {"norm": float(norm), "gradient": gradient_C}
