"""DataParallel: wraps any module; broadcast at the start, gradients averaged while the backward pass goes on."""

from typing import Any

from grader.calling.training import numbers
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import REPLICAS, TOLERANCE, model_of, train
from grader.exercises.shared.training_cases import SEEDS, model_cases, with_batches
from grader.judging.exercise import Case, Draw, Exercise

from .technique import STEPS

MICRO, LR = 2, 0.05


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        micro = 1 if n == 2 else MICRO
        make = with_batches(draw, lambda n: 2, STEPS * micro, micro=micro, optimizer="SGD" if n % 2 else "AdamW", lr=LR)
        left = {"left": 1.0} if model == "unused" else {}
        return [{**own, **left, "seed": seed if r == 0 else draw.integer(0, SEEDS)}
                for r, own in enumerate(make(model, n, seed))]

    cases = model_cases(draw, grading, ("mlp", "buffered", "tied", "frozen", "unused", "mixed", "empty", "gpt"), inputs)
    if grading:
        watched = [own | {"watched": True} for own in inputs("buckets", 2, draw.integer(0, SEEDS))]
        cases.append(Case("2 ranks, several buckets", tuple(watched)))
    return cases


def _right(case: Case, rank: int) -> dict[str, Any]:
    trained = train(case, rank)
    return {"start": numbers(model_of(case, rank)), "gradients": trained["gradients"],
            "parameters": trained["parameters"]}


EXERCISE = Exercise(
    title="Wrap any module",
    parameters=("module", "group"),
    make_cases=_cases,
    oracle=each_group(_right),
    trains=True,
    late_s=0.5,  # so that the others have begun all their all-reduces meanwhile, on a busy machine too
    forbidden=REPLICAS,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
)
