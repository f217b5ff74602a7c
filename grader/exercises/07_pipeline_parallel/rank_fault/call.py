"""How a rank calls rank_fault."""

from collections.abc import Callable
from typing import Any

from utils.schedules.schedule import Shape, Step


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(steps, rank, shape) for each named list of steps → its fault or None."""
    return {name: fn([Step(*step) for step in steps], inputs["rank"], Shape(*inputs["shape"]))
            for name, steps in inputs["lists"].items()}
