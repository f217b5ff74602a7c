"""How a rank calls dependencies."""

from collections.abc import Callable
from typing import Any

from utils.schedules.schedule import Step


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[tuple, list]:
    """fn(step, n_stages) for each of the steps."""
    return {tuple(step): [tuple(need) for need in _listed(fn(Step(*step), inputs["n_stages"]))] for step in inputs["steps"]}


def _listed(needs: Any) -> Any:
    if not isinstance(needs, (list, tuple, set, frozenset)):
        raise TypeError(f"expected a list of steps, found {type(needs).__name__}")
    return needs
