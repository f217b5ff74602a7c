"""How a rank calls dependencies."""

from collections.abc import Callable
from typing import Any

from utils.schedules.schedule import Step


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[tuple, list]:
    """fn(step, n_stages) for each of the steps."""
    return {tuple(step): [tuple(need) for need in fn(Step(*step), inputs["n_stages"])] for step in inputs["steps"]}
