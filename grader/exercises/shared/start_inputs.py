"""Cases that the exercises of this unit share: one world of each size, and two groups at work at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.judging.exercise import Case

GROUPS = ((1, 3, 4), (0, 2))  # neither is the world, and their ranks are not in one piece


def sweep(grading: bool, inputs_of: Callable[[int], Sequence[dict[str, Any]]], groups: bool = True) -> list[Case]:
    """1 to 4 ranks (5 in grading), then two groups; inputs_of(n) draws the inputs of n ranks that work together."""
    sizes = (1, 2, 3, 4, 5) if grading else (1, 2, 3, 4)
    cases = [Case("1 rank" if n == 1 else f"{n} ranks", tuple(inputs_of(n))) for n in sizes]
    return [*cases, in_groups(inputs_of)] if groups else cases


def in_groups(inputs_of: Callable[[int], Sequence[dict[str, Any]]]) -> Case:
    """Five ranks in two groups, each with inputs of its own."""
    inputs = {rank: one for members in GROUPS for rank, one in zip(members, inputs_of(len(members)), strict=True)}
    return Case("groups (1,3,4) and (0,2)", tuple(inputs[rank] for rank in range(len(inputs))), GROUPS)
