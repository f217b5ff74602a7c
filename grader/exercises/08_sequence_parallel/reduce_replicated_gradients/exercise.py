"""Gradients of what every rank has whole but has used on its own positions only: summed, in one message."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks, total
from grader.judging.exercise import Case, Draw, Exercise

WEIGHT = 0.375  # of every parameter, see call.py


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, *shapes: tuple[int, ...], frozen: int | None = None) -> tuple[dict[str, Any], ...]:
        return tuple({"shapes": list(shapes), "gradients": [
            None if number == frozen else draw.tensor(*shape, dtype=torch.float64) / 7
            for number, shape in enumerate(shapes)]} for _ in range(n))

    width = draw.integer(2, 9)
    five = inputs(2, *[(width,)] * 5)
    five[1]["gradients"][2].zero_()  # a gradient all the same
    for of_rank in five:
        of_rank["before"] = draw.tensors(5, width, dtype=torch.float64)
    cases = [Case(ranks(1), inputs(1, (5,), (5,))),
             Case(f"{ranks(2)}, five tensors of {width}, in two steps", five),
             Case(f"{ranks(3)}, one without a gradient", inputs(3, (3,), (4,), (3, 2), frozen=1)),
             Case(f"{ranks(4)}, of several shapes", inputs(4, (7,), (3, 5), (), (1, 4))),
             group_case(lambda n: inputs(n, (3,), (5,)), "two tensors")]
    return [*cases, Case(f"{ranks(5)}, one tensor", inputs(5, (3,)))] if grading else cases


def _right(case: Case, rank: int) -> list[Any]:
    gradients = zip(*case.peers_inputs(rank, "gradients"), strict=True)
    return [None if of_ranks[0] is None else total(of_ranks) for of_ranks in gradients]


EXERCISE = Exercise(
    title="Gradients of which each rank has a part",
    parameters=("parameters", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
)
