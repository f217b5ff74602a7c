"""The usual way: fn(*inputs, group)."""

from typing import Any


def call(fn, inputs: dict[str, Any], group) -> Any:
    return fn(*inputs.values(), group)
