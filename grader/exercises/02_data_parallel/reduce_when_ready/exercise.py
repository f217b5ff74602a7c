"""Reduce when ready: a hook on every parameter starts its all-reduce while the backward pass goes on."""

from typing import Any

from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, mean_gradients, own_gradients
from grader.exercises.shared.training_cases import WRONGLY_SCALED, model_cases, with_batches
from grader.judging.exercise import Case, Draw, Exercise, Slip

from .technique import STEPS


def _cases(draw: Draw, grading: bool) -> list[Case]:
    return model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "gpt"), with_batches(draw, lambda n: 2, STEPS))


def _means(case: Case, rank: int) -> list[dict[str, Any]]:
    members = case.members(rank)
    return [mean_gradients(case, rank, [(case.inputs[m]["xs"][step], case.inputs[m]["ys"][step]) for m in members])
            for step in range(STEPS)]


def _own(case: Case, rank: int, right: list) -> list[dict[str, Any]]:
    inputs = case.inputs[rank]
    return [own_gradients(case, rank, x, y) for x, y in zip(inputs["xs"], inputs["ys"], strict=True)]


EXERCISE = Exercise(
    title="Reduce while the backward pass goes on",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(_means),
    trains=True,
    tolerance=TOLERANCE,
    slips=(
        *WRONGLY_SCALED,
        Slip("own gradients", "Each rank still has the gradients of its own rows: nothing was reduced. A hook must be "
                              "registered on each parameter with requires_grad.", _own),
    ),
)
