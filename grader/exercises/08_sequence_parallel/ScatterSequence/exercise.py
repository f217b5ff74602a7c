"""Reduce-scatter along the sequence in forward, all-gather in backward: partial sums become a shard of the sum."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import group_case, ranks, total, xs_of
from grader.exercises.shared.conjugates import DIFFERENTIABLE
from grader.exercises.shared.sequence_inputs import joined, own_piece, x_and_weights
from grader.exercises.shared.split_inputs import or_refused
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """x (S, B, D), one addend on each rank; weights (S/n, B, D)."""
    def inputs(n: int, s: int, b: int, d: int, dtype: torch.dtype = torch.float64,
               transposed: bool = False) -> tuple[dict[str, Any], ...]:
        of_ranks = x_and_weights(draw, n, (s, b, d), (s // n, b, d), dtype)
        refused = None if s and s % n == 0 else [s, n]
        return tuple(inputs | {"transposed": transposed, "refused": refused} for inputs in of_ranks)

    sizes = [(1, 3, 2, 5), (2, 2 * draw.integer(1, 5), 3, 2), (4, 12, draw.integer(1, 4), 3)]
    sizes += [(5, 5, 2, 3), (2, 10, 1, 1), (4, 9, 4, 2)] if grading else []
    cases = [Case(f"{ranks(n)}, {s} positions, {b}×{d}", inputs(n, s, b, d)) for n, s, b, d in sizes]
    return [*cases,
            Case("2 ranks, float32", inputs(2, 6, 2, 5, torch.float32)),
            Case("3 ranks, 6 positions, not contiguous", inputs(3, 6, 1, 5, transposed=True)),
            Case("2 ranks, 7 positions: refused", inputs(2, 7, 2, 2)),
            Case("4 ranks, 3 positions: refused", inputs(4, 3, 4, 1)),
            Case("2 ranks, no positions: refused", inputs(2, 0, 2, 2)),
            Case("1 rank, no positions: refused", inputs(1, 0, 2, 2)),
            group_case(lambda n: inputs(n, 6, 2, 2), "6 positions")]


def _right(case: Case, rank: int) -> dict[str, Any]:
    return {"y": own_piece(case, rank, total(xs_of(case, rank))), "dx": joined(case, rank, "weights")}


EXERCISE = Exercise(
    title="From partial sums to a shard of the sum",
    parameters=("x_SBD", "group"),
    forbidden=DIFFERENTIABLE,
    make_cases=_cases,
    trains=True,
    oracle=or_refused(_right),
    tolerance=1e-9,
)
