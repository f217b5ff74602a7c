"""How a rank calls route."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from grader.calling.sequences import leaf


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """experts, weights, kept = fn(logits, k, capacity), and the logits' gradient of Σ factors·weights, or None."""
    logits = leaf(inputs["logits"])
    experts, weights, kept = fn(logits, inputs["k"], inputs["capacity"])
    if isinstance(weights, Tensor) and weights.requires_grad and weights.shape == inputs["factors"].shape:
        (weights * inputs["factors"]).sum().backward()
    return {"experts": experts, "weights": weights, "kept": kept, "dlogits": logits.grad}
