"""How a rank calls pass_right."""

from typing import Any

from torch import Tensor

from grader.calling.watching_inputs import watched


def call(fn, inputs: dict[str, Any], group) -> Tensor:
    """What fn(x, group) returned; where the case says "again", after another call with −x, which must not change it."""
    received = watched(fn, {"x": inputs["x"]}, group)
    if inputs.get("again"):
        fn(-inputs["x"], group)
    return received
