"""The way of functions that do not communicate: fn(*inputs)."""

from typing import Any


def call(fn, inputs: dict[str, Any], group) -> Any:
    return fn(*inputs.values())
