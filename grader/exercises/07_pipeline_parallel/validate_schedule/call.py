"""How a rank calls validate_schedule."""

from collections.abc import Callable
from typing import Any

from grader.calling.schedules_run import as_schedule
from utils.schedules.schedule import Shape


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(schedule, shape, limits) for each named schedule → its fault or None."""
    return {name: fn(as_schedule(rows), Shape(*shape), limits)
            for name, (rows, shape, limits) in inputs["schedules"].items()}
