"""Gradients of what every rank has whole but has used on its own positions only: summed, in one message."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks, total
from grader.judging.exercise import Case, Draw, Exercise, Slip
from grader.judging.slips import times, unchanged

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


def _zeros_for_none(case: Case, rank: int, right: list[Any]) -> list[Any]:
    shapes = case.inputs[rank]["shapes"]
    return [torch.zeros(shape, dtype=torch.float64) if gradient is None else gradient
            for shape, gradient in zip(shapes, right[rank], strict=True)]


def _own_added(case: Case, rank: int, right: list[Any]) -> list[Any]:
    return [None if own is None else own + whole
            for own, whole in zip(case.inputs[rank]["gradients"], right[rank], strict=True)]


def _weights_summed(case: Case, rank: int, right: list[Any]) -> list[Any]:
    return [None if one is None else torch.full_like(one, WEIGHT * case.group_size(rank)) for one in right[rank]]


EXERCISE = Exercise(
    title="Gradients of which each rank has a part",
    parameters=("parameters", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
    slips=(
        Slip("only in the first step", "In a second step the gradients stay each rank's own: zero_grad(set_to_none=False) "
             "keeps the tensors, so a mark on one says nothing of the next step's numbers. Each call sums what it is given.",
             lambda case, rank, right: case.inputs[rank]["gradients"], shows=lambda case: "before" in case.inputs[0]),
        Slip("nothing where one is missing", "Where one gradient is missing, none is summed: leave out only the parameters "
             "that have none, and sum the others.",
             lambda case, rank, right: case.inputs[rank]["gradients"] if None in right[rank] else right[rank]),
        unchanged("The gradients are as they were: each rank still has those of its own positions. Write the sum back into "
                  "p.grad.", "nothing reduced", "gradients"),
        times("mean for sum", lambda case, rank: 1 / case.group_size(rank),
              "The gradients are n times too small. In data parallelism each rank has a loss of its own, and the mean is "
              "wanted; here all ranks compute parts of one loss."),
        Slip("own added", "The sum already holds this rank's own gradient: it takes the gradient's place, and is not added "
                          "to it.", _own_added),
        times("divided by the world", lambda case, rank: 1 / case.world_size, "The sum is divided by the world's size: all "
              "ranks of the group compute parts of one loss, so nothing is divided, least of all by ranks outside it."),
        Slip("weights for gradients", "These are the weights' values, summed: reduce p.grad.", _weights_summed),
        Slip("only the first", "Only the first gradient is summed.",
             lambda case, rank, right: [right[rank][0], *case.inputs[rank]["gradients"][1:]]),
        Slip("invented gradient", "A parameter without a gradient must stay without one.", _zeros_for_none),
    ),
)
