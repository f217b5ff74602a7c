"""Cases without communication, each one call on one rank, for the exercises that ask for a formula."""

import bisect
from collections.abc import Callable
from typing import Any

from grader.judging.exercise import Case

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
