"""How a rank calls choose_layout."""

from collections.abc import Callable
from typing import Any

from grader.calling.layouts import memory_by, seconds_by


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, int] | None:
    """fn(shape, n_devices, batch, machine, memory_of, seconds_of), with functions made from the case's prices."""
    prices = inputs["prices"]
    return fn(dict(inputs["shape"]), inputs["n_devices"], inputs["batch"], dict(inputs["machine"]), memory_by(prices),
              seconds_by(prices))
