"""Cases of worlds of every size, and of two groups at work at once."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.cases import group_case, ranks
from grader.judging.exercise import Case


def sweep(grading: bool, inputs_of: Callable[[int], Sequence[dict[str, Any]]], groups: bool = True) -> list[Case]:
    """1 to 4 ranks (5 in grading), then two groups; inputs_of(n) draws the inputs of n ranks that work together."""
    sizes = (1, 2, 3, 4, 5) if grading else (1, 2, 3, 4)
    cases = [Case(ranks(n), tuple(inputs_of(n))) for n in sizes]
    return [*cases, group_case(inputs_of)] if groups else cases
