"""One weight on the first and on the last stage: the sum of its two gradients, and nobody else takes part."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise

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


EXERCISE = Exercise(
    title="One weight on two stages",
    parameters=("weight", "group"),
    make_cases=_cases,
    oracle=each_rank(_reduced),
    tolerance=TOLERANCE,
)
