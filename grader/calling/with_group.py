"""The usual way: fn(*inputs, group)."""

from typing import Any

from grader.calling.watching_inputs import watched

AGAIN, CALLS = "again", 3  # a case's input that asks for more calls, and how many they are in all


def call(fn, inputs: dict[str, Any], group) -> Any:
    """What fn(*inputs, group) returned; AGAIN: between two calls with −x, for nothing may stay from call to call."""
    if not inputs.get(AGAIN):
        return watched(fn, inputs, group)
    x, before, after = inputs["x"], -inputs["x"], -inputs["x"]  # a call may overwrite its x
    fn(before, group)
    result = watched(fn, {"x": x}, group)
    fn(after, group)
    return result
