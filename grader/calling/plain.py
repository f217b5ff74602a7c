"""The way of functions that do not communicate: fn(*inputs)."""

from typing import Any

from grader.calling.watching_inputs import watched


def call(fn, inputs: dict[str, Any], group) -> Any:
    return watched(fn, inputs)
