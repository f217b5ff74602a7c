"""A hook a parameter: reduce-scatter its gradient as soon as it exists, keep the shard, free the rest."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.training_cases import weighed_case, with_batches
from grader.exercises.shared.zero_cases import mean_shards, odd_models
from grader.judging.exercise import Case, Draw, Exercise

PASSES = 2
TINY = "a tensor of 3 elements"


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        return with_batches(draw, lambda n: 2, PASSES, turned=model == "frozen")(model, n, seed)

    cases = [_cleared(case) if case.name.endswith(TINY) else case for case in odd_models(draw, grading, inputs, TINY)]
    return [*cases, *weighed_case(inputs, grading, "wider")]


def _cleared(case: Case) -> Case:
    """The same; the dictionary is emptied between the passes."""
    return Case(f"{case.name}, cleared between two passes", tuple(inputs | {"cleared": True} for inputs in case.inputs))


def _passes(case: Case, rank: int) -> Sequence[int]:
    """Which count."""
    return range(1 if case.inputs[rank].get("cleared") else 0, PASSES)


EXERCISE = Exercise(
    title="Reduce-scatter each gradient as soon as it is there",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: {"shards": mean_shards(case, r, _passes(case, r)), "gradients left": []}),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
)
