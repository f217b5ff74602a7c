"""Speak in rank order: a token goes from rank to rank."""

from grader.exercises.shared.cases import sweep
from grader.judging.exercise import Exercise

EXERCISE = Exercise(
    title="Speak in order",
    parameters=("say", "text", "group"),
    make_cases=lambda draw, grading: sweep(
        grading, lambda n: [{"text": f"line {number}"} for number in draw.numbers.sample(range(10, 100), n)]),
    oracle=lambda case: [None] * case.world_size,
)
