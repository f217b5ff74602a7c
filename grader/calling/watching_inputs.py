"""A mark in the trace for each input that a function changed."""

from collections.abc import Callable
from typing import Any

from grader.evidence.evidence import pack
from utils.trace.spans import mark

INPUT_CHANGED = "input changed"


def watched(fn: Callable, inputs: dict[str, Any], *more: Any) -> Any:
    """fn(*inputs, *more); leaves a mark for each input that is no longer what it was, or holds something that is not."""
    before = {name: pack(value) for name, value in inputs.items()}
    result = fn(*inputs.values(), *more)
    for name, content in before.items():
        if _packed(inputs[name]) != content:
            mark(INPUT_CHANGED, parameter=name)
    return result


def _packed(value: Any) -> bytes | None:
    """None for an input that now holds what no case can hold."""
    try:
        return pack(value)
    except TypeError:
        return None
