"""How a rank calls race_schedule."""

from collections.abc import Callable
from typing import Any

ASKED = ("n_stages", "n_micro", "durations", "hop_time", "most")  # the bars are the judge's alone


def call(fn: Callable, inputs: dict[str, Any], group) -> list[list[tuple]]:
    """fn(n_stages, n_micro, durations, hop_time, most) → its schedule."""
    asked = {name: inputs[name] for name in ASKED}
    return [[tuple(step) for step in steps] for steps in fn(**asked | {"durations": dict(inputs["durations"])})]
