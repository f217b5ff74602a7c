"""Reduce-scatter along the sequence in forward, all-gather in backward: partial sums become a piece of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks, total
from grader.exercises.shared.sequence_inputs import joined, not_refused, own_piece, part
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited

from ..GatherSequence.exercise import gradient_as, result_as, sent_both_ways


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """x (S, B, D), one addend on each rank; weights (S/n, B, D)."""
    def inputs(n: int, s: int, b: int, d: int, dtype: torch.dtype = torch.float64) -> tuple[dict[str, Any], ...]:
        return tuple({"x": draw.tensor(s, b, d, dtype=dtype), "weights": draw.tensor(s // n, b, d, dtype=dtype)}
                     for _ in range(n))

    sizes = [(1, 3, 2, 5), (2, 2 * draw.integer(1, 5), 3, 2), (3, 6, 1, 5), (4, 12, draw.integer(1, 4), 3)]
    sizes += [(5, 5, 2, 3), (2, 10, 1, 1), (4, 9, 4, 2)] * grading
    cases = [Case(f"{ranks(n)}, {s} positions, {b}×{d}", inputs(n, s, b, d)) for n, s, b, d in sizes]
    cases.append(Case("2 ranks, float32", inputs(2, 6, 2, 5, torch.float32)))
    cases.append(Case("2 ranks, 7 positions: refused", inputs(2, 7, 2, 2)))
    cases.append(Case("4 ranks, 3 positions: refused", inputs(4, 3, 4, 1)))
    cases.append(group_case(lambda n: inputs(n, 6, 2, 2), "6 positions"))
    return cases


def _plain(case: Case, rank: int, forward: str = "sum", backward: str = "whole", backwards: bool = False) -> dict[str, Any]:
    """Wrong ways forward: the mean, or this rank's own addend. Backward: only this rank's rows, or all times n or summed."""
    n, xs = len(case.members(rank)), case.peers_inputs(rank, "x")
    if len(xs[0]) % n:
        return {"refused": True}
    addend = {"sum": total(xs), "mean": total(xs) / n, "own": case.inputs[rank]["x"]}[forward]
    weights = joined(case, rank, "weights")
    own = torch.zeros_like(weights)
    own_piece_at = case.group_rank(rank) * len(weights) // n
    own[own_piece_at:own_piece_at + len(weights) // n] = case.inputs[rank]["weights"]
    dx = {"whole": weights, "own": own, "mean": weights / n, "sum": weights * n}[backward]
    y = addend.chunk(n)[n - 1 - case.group_rank(rank)].clone() if backwards else own_piece(case, rank, addend)
    return {"y": y, "dx": dx}


EXERCISE = Exercise(
    title="From partial sums to a piece of the sum",
    parameters=("x_SBD", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=1e-9,
    technique=Technique(
        demands=(
        only_calls("reduce_scatter", "all_gather", hint=(
            "A reduce-scatter forward, an all-gather backward, nothing else: after an all-reduce each rank would have sums "
            "for all positions, and throw most of them away.")),
        bytes_sent(sent_both_ways, "2(n−1)/n of the whole tensor's bytes",
                   "Right, but more was sent than one reduce-scatter of x and one all-gather of the gradient."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and keep it in ctx for the "
                      "backward pass."),
        unwaited(),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: dx and None.",
               "too few gradients"),
        Symptom("pieces reversed", "Rank r keeps the r-th piece of the sequence; here the pieces went to the ranks in "
                                   "reverse.",
                result_as(_plain, backwards=True)),
        Symptom("not reduced", "y is this rank's own rows, cut: each rank has only a partial sum, and they must be added.",
                result_as(_plain, forward="own")),
        Symptom("mean for sum", "y is n times too small: the ranks' parts are addends of one product, so sum them.",
                result_as(_plain, forward="mean")),
        Symptom("gradient not gathered", "dx has this rank's rows only. But each rank's x went into all positions of the "
                                         "result: the conjugate of a reduce-scatter is an all-gather.",
                gradient_as(_plain, backward="own")),
        Symptom("gradient divided", "dx is n times too small: in a sum every addend has the sum's gradient, undivided.",
                gradient_as(_plain, backward="mean")),
        Symptom("gradient of another shape", "y is right, dx is not: it has the shape of x, the whole sequence.",
                part("dx", ("y", "dx"))),
        Symptom("not refused", "A sequence that the ranks do not divide must raise a ValueError that names both sizes, "
                               "before any call.", not_refused("")),
        Symptom("wrong result", "y is not piece r, (S/n, B, D), of the sum over ranks.", part("y", ("y", "dx"))),
    ),
    ),
)
