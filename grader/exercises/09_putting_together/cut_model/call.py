"""How a rank calls cut_model: a tied head is the embedding's own tensor there, as in a model."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from grader.calling import plain


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Tensor]:
    """fn(*inputs), as usual."""
    inputs["whole"]["head.weight"] = inputs["whole"]["embedding.weight"]
    return plain.call(fn, inputs, group)
