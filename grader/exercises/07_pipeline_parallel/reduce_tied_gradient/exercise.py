"""One weight on the first and on the last stage: the sum of its two gradients, and nobody else takes part."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

from .technique import ends


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int) -> list[dict[str, Any]]:
        weight = draw.tensor(7, 3, dtype=torch.float64) / 50
        return [{"weight": weight, "gradient": draw.tensor(7, 3, dtype=torch.float64) / 50} if r in (0, n - 1)
                else {"weight": None, "gradient": None} for r in range(n)]

    sizes = (1, 2, 3, 4, 5) if grading else (1, 2, 3, 4)
    return [*(Case(ranks(n), tuple(inputs(n))) for n in sizes), group_case(inputs)]


def _reduced(case: Case, rank: int) -> dict[str, Any]:
    if rank not in ends(case, rank):
        return {"gradient": None, "weight": None, "in place": True}
    return {"gradient": sum(case.inputs[end]["gradient"] for end in ends(case, rank)),
            "weight": case.inputs[rank]["weight"], "in place": True}


def _at_ends(id: str, hint: str, n_ends: int, wrong: Callable[[Case, int, dict[str, Tensor]], dict[str, Any]]) -> Slip:
    """What wrong(case, rank, right) changes at the ends, of groups with one end or with two."""
    return Slip(id, hint, lambda case, rank, right: right[rank] | (
        wrong(case, rank, right[rank]) if rank in ends(case, rank) and len(ends(case, rank)) == n_ends else {}))


def _other_gradient(case: Case, rank: int) -> Tensor:
    other, = set(ends(case, rank)) - {rank}
    return case.inputs[other]["gradient"]


EXERCISE = Exercise(
    title="One weight on two stages",
    parameters=("weight", "group"),
    make_cases=_cases,
    oracle=each_rank(_reduced),
    tolerance=TOLERANCE,
    slips=(
        _at_ends("weights summed", "The weight itself was changed: what is summed is its gradient.", 2,
                 lambda case, rank, right: {"gradient": ANYTHING, "weight": 2 * right["weight"]}),
        _at_ends("doubled alone", "With one stage there is one weight and one gradient: nothing to add.", 1,
                 lambda case, rank, right: {"gradient": 2 * right["gradient"]}),
        _at_ends("mean for sum", "The mean was taken. The two gradients are parts of one: embedding and head both use the "
                                 "weight, so they add up.", 2,
                 lambda case, rank, right: {"gradient": right["gradient"] / 2, "in place": ANYTHING}),
        _at_ends("swapped", "Each end has the other one's gradient: add what comes to what is there.", 2,
                 lambda case, rank, right: {"gradient": _other_gradient(case, rank), "in place": ANYTHING}),
        _at_ends("a new tensor", "The sum is right, but it is a new tensor: weight.grad is to become the sum in place, "
                                 "since an optimizer or a bucket may hold that very tensor.", 2,
                 lambda case, rank, right: {"in place": False}),
        _at_ends("weights sent", "What was added is the other end's weight: send the gradient, weight.grad.", 2,
                 lambda case, rank, right: {"gradient": case.inputs[rank]["gradient"] + right["weight"],
                                            "in place": ANYTHING}),
    ),
)
