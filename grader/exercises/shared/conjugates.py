"""What the exercises on f and g share: cases, oracle, demands, and the ways to mix the two up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.split_demands import calls_are, sent_at_most
from grader.judging.compare import same
from grader.judging.demands import group_size, inputs_kept, only_calls, results_waited
from grader.judging.exercise import Case, Demand, Draw, Look, Symptom
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

OWN, SUM, MEAN, TIMES_N, DIVIDED = "own", "sum", "mean", "own times n", "own over n"
DTYPES = ("float64", "float32", "bfloat16", "float64", "float32")


def conjugate_cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """x and dy on every rank, of 1, 2, 3 and 4 ranks, one of them lying in memory column by column."""

    def inputs(n: int, shape: Sequence[int], dtype: str, transposed: bool = False) -> list[dict[str, Any]]:
        return [{name: draw.tensor(*shape, dtype=torch.float64).to(getattr(torch, dtype)) for name in ("x", "dy")}
                | {"transposed": transposed} for _ in range(n)]

    sizes = [(1, (3,), False), (2, (draw.integer(2, 4), 3), True), (3, (2, 5), False), (4, (1, 3, 2), False)]
    sizes += [(5, (7,), False)] * grading
    cases = [Case(f"{ranks(n)}, {dtype} {'×'.join(map(str, shape))}{', transposed' * transposed}",
                  tuple(inputs(n, shape, dtype, transposed)))
             for (n, shape, transposed), dtype in zip(sizes, DTYPES, strict=False)]
    return [*cases, group_case(lambda n: inputs(n, (2, 3), "float64"))]


def conjugate_result(case: Case, rank: int, forward: str, backward: str) -> dict[str, Tensor]:
    """y from x, and dx from dy: this rank's own, or the group's sum or mean, or its own times n or over n."""
    return {name: _combined(case, rank, of, how) for name, of, how in (("y", "x", forward), ("dx", "dy", backward))}


def _combined(case: Case, rank: int, of: str, how: str) -> Tensor:
    own, whole = case.inputs[rank][of], case.peers_inputs(rank, of)
    total = torch.stack([one.double() for one in whole]).sum(0)
    return {OWN: own, SUM: total.to(own.dtype), MEAN: (total / len(whole)).to(own.dtype), TIMES_N: own * len(whole),
            DIVIDED: own / len(whole)}[how]


def mixed_up(forward: str, backward: str) -> Callable[[Look], bool]:
    """Wrong ranks have what this other pair gives."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return group_size(look, rank) > 1 and same(found, conjugate_result(look.case, rank, forward, backward))

    return wrong_ranks(test)


def one_all_reduce(phase: str, other: str) -> tuple[Demand, ...]:
    """One all-reduce of x in `phase`, nothing in the `other` direction, inputs and gradients left as they were."""

    def limit(look: Look, rank: int) -> float:
        return bytes_sent_per_rank("all_reduce", look.case.inputs[rank]["x"].nbytes, group_size(look, rank))

    return (
        only_calls("all_reduce", hint="dist.all_reduce is all the communication that this exercise needs."),
        calls_are(other, {}, f"The result is right, but ranks communicate in {other} too: there it is the identity.",
                  f"communicates in {other}"),
        calls_are(phase, {"all_reduce": 1}, f"The result is right, but one all-reduce in {phase} is enough.",
                  "all-reduced again"),
        sent_at_most(phase, limit, "one all-reduce of the tensor's bytes",
                     "The result is right, but more bytes were sent than the tensor's own: reduce it in its own dtype.",
                     "too many bytes"),
        inputs_kept("The result is right, but the tensor that was handed in was changed on the way: others may still need "
                    "it. all_reduce works in place, so give it a clone."),
        results_waited(),
    )


def shared_symptoms() -> tuple[Symptom, ...]:
    """Ways to fail that have nothing to do with f or g."""
    return (
        group_ignored("The ranks of other groups are touched: pass group=group to all_reduce; keep it in ctx for backward."),
        unwaited(),
        raised("has no attribute 'group'", "backward does not get the group: keep it in forward, ctx.group = group.",
               "group not kept"),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: the gradient and "
                                      "None.", "too few gradients"),
    )


