"""How a rank calls clip_gradient_norm."""

from collections.abc import Callable
from typing import Any

from torch import Tensor


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(gradient_C, max_norm, group) → what it returned, and the gradient."""
    gradient_C = inputs["gradient_C"].clone()
    norm = fn(gradient_C, inputs["max_norm"], group)
    return {"norm": norm if isinstance(norm, Tensor) else float(norm), "gradient": gradient_C}
