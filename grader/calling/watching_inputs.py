"""A mark in the trace that says which of its inputs a function changed."""

from collections.abc import Callable
from typing import Any

from grader.evidence.evidence import pack
from utils.trace.spans import mark

INPUTS_LOOKED_AT = "inputs looked at"


def watched(fn: Callable, inputs: dict[str, Any], *more: Any) -> Any:
    """fn(*inputs, *more); leaves a mark of the inputs that are no longer what they were, or hold what no case can hold."""
    before = {name: pack(value) for name, value in inputs.items()}
    try:
        return fn(*inputs.values(), *more)
    finally:
        mark(INPUTS_LOOKED_AT, changed=[name for name, content in before.items() if packed(inputs[name]) != content])


def packed(value: Any) -> bytes | None:
    """None for what no case can hold."""
    try:
        return pack(value)
    except TypeError:
        return None
