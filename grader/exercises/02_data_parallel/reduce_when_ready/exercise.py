"""Reduce when ready: a hook on every parameter starts its all-reduce while the backward pass goes on."""

from typing import Any

from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import OF_A_MEAN, REPLICAS, mean_gradients
from grader.exercises.shared.training_cases import model_cases, with_batches
from grader.exercises.shared.zero_cases import with_rests
from grader.judging.exercise import Case, Draw, Exercise

from .technique import STEPS

LEFT = (None, 1.0)  # what gradients are left from before at each backward pass


def _cases(draw: Draw, grading: bool) -> list[Case]:
    return model_cases(draw, grading, ("mlp", "tied", "frozen", "seldom", "gpt"), with_rests(with_batches(
        draw, lambda n: 2, STEPS, left=LEFT)))


def _means(case: Case, rank: int) -> list[dict[str, Any]]:
    members = case.members(rank)
    return [mean_gradients(case, rank, [(case.inputs[m]["xs"][step], case.inputs[m]["ys"][step]) for m in members], left)
            for step, left in enumerate(LEFT)]


EXERCISE = Exercise(
    title="Reduce while the backward pass goes on",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(_means),
    trains=True,
    late_s=0.5,  # so that the others have begun all their all-reduces meanwhile, on a busy machine too
    forbidden=REPLICAS,
    tolerance=OF_A_MEAN,
)
