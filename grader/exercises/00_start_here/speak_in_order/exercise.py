"""Speak in rank order: a token goes from rank to rank."""

from grader.exercises.shared.cases import sweep
from grader.judging.exercise import Draw, Exercise


def _inputs(draw: Draw, n: int) -> list[dict]:
    """One text a rank; of three ranks, the second has an empty one, which is to be said, too; a lone rank has two calls."""
    texts = [f"line {number}" for number in draw.numbers.sample(range(10, 100), n)]
    return [{"text": "" if (r, n) == (1, 3) else text, "calls": 2 if n == 1 else 1} for r, text in enumerate(texts)]


EXERCISE = Exercise(
    title="Speak in order",
    parameters=("say", "text", "group"),
    make_cases=lambda draw, grading: sweep(grading, lambda n: _inputs(draw, n)),
    oracle=lambda case: [None] * case.world_size,
)
