"""Gather along the sequence in forward, reduce-scatter in backward: how a shard of the sequence becomes the whole."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks, total
from grader.exercises.shared.conjugates import DIFFERENTIABLE
from grader.exercises.shared.sequence_inputs import joined, own_piece, x_and_weights
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """x (P, B, D), a shard of the sequence; weights (S, B, D)."""
    def inputs(n: int, s: int, b: int, d: int, dtype: torch.dtype = torch.float64,
               transposed: bool = False) -> tuple[dict[str, Any], ...]:
        of_ranks = x_and_weights(draw, n, (s, b, d), (n * s, b, d), dtype)
        return tuple(inputs | {"transposed": transposed} for inputs in of_ranks)

    sizes = [(1, 3, 2, 5), (2, draw.integer(1, 5), 3, 2), (4, 3, draw.integer(1, 4), 3)]
    sizes += [(5, 1, 2, 3), (2, 5, 1, 1)] if grading else []
    cases = [Case(f"{ranks(n)}, shards of {s} positions, {b}×{d}", inputs(n, s, b, d)) for n, s, b, d in sizes]
    cases.append(Case("3 ranks, shards of 2 positions, not contiguous", inputs(3, 2, 2, 5, transposed=True)))
    return [*cases, Case("2 ranks, bfloat16", inputs(2, 3, 2, 5, torch.bfloat16)),
            group_case(lambda n: inputs(n, 3, 2, 2), "shards of 3 positions")]


def _right(case: Case, rank: int) -> dict[str, Any]:
    return {"y": joined(case, rank), "dx": own_piece(case, rank, total(case.peers_inputs(rank, "weights")))}


EXERCISE = Exercise(
    title="From a shard to the whole sequence, and back",
    parameters=("x_PBD", "group"),
    forbidden=DIFFERENTIABLE,
    make_cases=_cases,
    trains=True,
    oracle=each_rank(_right),
    tolerance=1e-9,
)
