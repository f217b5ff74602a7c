"""Broadcast a model: every rank starts from the first one's parameters and buffers."""

from grader.calling.training import numbers
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import REPLICAS, model_of
from grader.exercises.shared.training_cases import SEEDS, model_cases
from grader.judging.exercise import Case, Draw, Exercise

MODELS = ("mlp", "buffered", "tied", "frozen", "gpt", "mixed")


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Each rank draws its own numbers. With buffers it is called again."""
    return model_cases(draw, grading, MODELS, lambda model, n, seed: [
        {"model": model, "seed": seed if r == 0 else draw.integer(0, SEEDS), "again": model == "buffered"}
        for r in range(n)])


EXERCISE = Exercise(
    title="All start from one model",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(lambda case, r: numbers(model_of(case, r))),
    trains=True,
    forbidden=REPLICAS,
)
