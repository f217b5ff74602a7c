"""Gather along the sequence in forward, reduce-scatter in backward: how a shard of the sequence becomes the whole."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks, total, xs_of
from grader.exercises.shared.conjugates import DIFFERENTIABLE
from grader.exercises.shared.sequence_inputs import (
    divided_by_n,
    joined,
    of_the_second_call,
    own_piece,
    x_and_weights,
)
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.exercises.technique.sequences import WRITTEN_OVER
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
    slips=(
        first_wrong_slip("pieces reversed", "The shards are in reverse order: rank r's positions come r-th.", "y",
                         lambda case, r, y: torch.cat(xs_of(case, r)[::-1])),
        *(first_wrong_slip("gathered along the batch", "The shards were joined along another dim: the sequence is dim 0.",
                           "y", lambda case, r, y, dim=dim: torch.cat(xs_of(case, r), dim)) for dim in (1, 2)),
        first_wrong_slip("written over", WRITTEN_OVER, "y", of_the_second_call),
        first_wrong_slip("gradient not summed", "dx is the gradient of this rank's own use of x. But every rank has used "
                         "your shard: the conjugate of an all-gather sums over ranks, and each keeps its shard.", "dx",
                         lambda case, r, dx: own_piece(case, r, case.inputs[r]["weights"])),
        first_wrong_slip("another rank's gradient", "dx is what belongs to another rank: the r-th shard of the summed "
                         "gradient goes to rank r, whose positions those are.", "dx", lambda case, r, dx: own_piece(
                             case, r, total(case.peers_inputs(r, "weights")).flip(0)).flip(0)),
        first_wrong_slip("mean for sum", "dx is n times too small: the ranks' gradients of one loss are summed, not "
                         "averaged.", "dx", divided_by_n),
    ),
)
