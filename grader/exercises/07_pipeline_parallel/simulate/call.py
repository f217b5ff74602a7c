"""How a rank calls simulate."""

from collections.abc import Callable
from typing import Any

from grader.calling.schedules_run import as_schedule


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(schedule, durations, hop_time) → its four parts."""
    times, makespan, bubble_rate, peaks = fn(as_schedule(inputs["schedule"]), dict(inputs["durations"]), inputs["hop_time"])
    return {"times": {tuple(step): tuple(map(float, both)) for step, both in times.items()},
            "makespan": float(makespan), "bubble rate": float(bubble_rate), "peaks": list(peaks)}
