"""Gather along the sequence in forward, reduce-scatter in backward: how a piece of the sequence becomes the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import joined, own_piece, part
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

Oracle = Callable[..., dict[str, Any]]


def piece_cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """x (s, B, D), a piece of the sequence; weights (n·s, B, D)."""
    def inputs(n: int, s: int, b: int, d: int, dtype: torch.dtype = torch.float64) -> tuple[dict[str, Any], ...]:
        return tuple({"x": draw.tensor(s, b, d, dtype=dtype), "weights": draw.tensor(n * s, b, d, dtype=dtype)}
                     for _ in range(n))

    sizes = [(1, 3, 2, 5), (2, draw.integer(1, 5), 3, 2), (3, 2, 1, 5), (4, 3, draw.integer(1, 4), 3)]
    sizes += [(5, 1, 2, 3), (2, 5, 1, 1)] * grading
    cases = [Case(f"{ranks(n)}, pieces of {s} positions, {b}×{d}", inputs(n, s, b, d)) for n, s, b, d in sizes]
    cases.append(Case("2 ranks, bfloat16", inputs(2, 3, 2, 5, torch.bfloat16)))
    cases.append(group_case(lambda n: inputs(n, 3, 2, 2), "pieces of 3 positions"))
    return cases


def _plain(case: Case, rank: int, backward: str = "sum", backwards: bool = False, dim: int = 0) -> dict[str, Any]:
    """Wrong ways: the gradient of this rank's own result ("own"), or the mean; the pieces in reverse order; another dim."""
    weights = torch.stack(case.peers_inputs(rank, "weights"))
    total = {"sum": lambda: weights.sum(0), "mean": lambda: weights.mean(0), "own": lambda: case.inputs[rank]["weights"]}
    pieces = case.peers_inputs(rank, "x")[::-1] if backwards else case.peers_inputs(rank, "x")
    return {"y": torch.cat(pieces, dim), "dx": own_piece(case, rank, total[backward]())}


def sent_both_ways(look: Look, rank: int) -> float:
    """One all-gather and one reduce-scatter of the whole tensor."""
    whole = joined(look.case, rank).nbytes if look.right[rank].get("y") is None else max(
        look.right[rank]["y"].nbytes, look.case.inputs[rank]["x"].nbytes)
    return sum(bytes_sent_per_rank(op, whole, group_size(look, rank)) for op in ("all_gather", "reduce_scatter"))


def gradient_as(plain: Oracle, **other: Any) -> Callable[[Look], bool]:
    """y is right, and dx is that of another way, on every wrong rank."""
    return wrong_ranks(lambda look, r, found, expected: same(found["y"], expected["y"]) and same(
        found["dx"], plain(look.case, r, **other)["dx"]))


def result_as(plain: Oracle, **other: Any) -> Callable[[Look], bool]:
    """y is that of another way, on every wrong rank, which is not right."""
    return wrong_ranks(lambda look, r, found, expected: not same(found["y"], expected["y"]) and same(
        found["y"], plain(look.case, r, **other)["y"]))


EXERCISE = Exercise(
    title="From a piece to the whole sequence, and back",
    parameters=("x_sBD", "group"),
    make_cases=piece_cases,
    oracle=each_rank(_plain),
    tolerance=1e-9,
    technique=Technique(
        demands=(
        only_calls("all_gather", "reduce_scatter", hint=(
            "An all-gather forward, a reduce-scatter backward, nothing else: an all-reduce moves twice the bytes and leaves "
            "every rank gradients of positions that are not its own.")),
        bytes_sent(sent_both_ways, "2(n−1)/n of the whole tensor's bytes",
                   "Right, but more was sent than one all-gather of x and one reduce-scatter of its gradient."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and keep it in ctx for the "
                      "backward pass."),
        unwaited(),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: dx and None.",
               "too few gradients"),
        Symptom("pieces reversed", "The pieces are in reverse order: rank r's positions come r-th.",
                result_as(_plain, backwards=True)),
        Symptom("gathered along the batch", "The pieces were joined along another dim: the sequence is dim 0.",
                lambda look: any(result_as(_plain, dim=dim)(look) for dim in (1, 2))),
        Symptom("gradient not summed", "dx is the gradient of this rank's own use of x. But every rank has used your piece: "
                                       "the conjugate of an all-gather sums over ranks, and each keeps its piece.",
                gradient_as(_plain, backward="own")),
        Symptom("mean for sum", "dx is n times too small: the ranks' gradients of one loss are summed, not averaged.",
                gradient_as(_plain, backward="mean")),
        Symptom("gradient of another shape", "y is right, dx is not: it has the shape of x, one piece of the sequence.",
                part("dx", ("y", "dx"))),
        Symptom("wrong result", "y is not the whole sequence (n·s, B, D), the ranks' pieces in order.",
                part("y", ("y", "dx"))),
    ),
    ),
)
