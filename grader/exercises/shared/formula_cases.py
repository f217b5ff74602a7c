"""Cases without communication, each one call on one rank, and the slips of the formulas that they ask for."""

import bisect
from collections.abc import Callable
from typing import Any

from grader.judging.exercise import Case, Slip

FORMULAS = ("utils.costs.formulas", "utils.costs.strategies", "utils.planner")  # where what is asked for could be looked up


def single(name: str, **inputs: Any) -> Case:
    """One rank, called once."""
    return Case(name, (inputs,))


def first_enough(enough: Callable[[int], bool]) -> int:
    """The smallest whole number from 1 on that is enough, found by trying; then every larger one must be, too."""
    most = 1
    while not enough(most):
        most *= 2
    tried = range(1, most + 1)
    return tried[bisect.bisect_left(tried, True, key=enough)]


def formula(id: str, wrong: Callable[[dict[str, Any]], Any]) -> Slip:
    """The result is wrong(inputs)."""
    return Slip(id, lambda case, rank, right: wrong(case.inputs[rank]))


def pair(id: str, wrong: Callable[[dict[str, Any], float, float], tuple[float, float]]) -> Slip:
    """Where two numbers are asked, wrong(inputs, right first, right second)."""
    return Slip(id, lambda case, rank, right: wrong(case.inputs[rank], *right[rank]))
