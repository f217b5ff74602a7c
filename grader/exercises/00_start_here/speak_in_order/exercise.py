"""Speak in rank order: a token goes from rank to rank."""

from __future__ import annotations

from grader.exercises.shared.start_inputs import sweep
from grader.judging.exercise import Exercise

from .technique import TECHNIQUE

EXERCISE = Exercise(
    title="Speak in order",
    parameters=("say", "text", "group"),
    make_cases=lambda draw, grading: sweep(
        grading, lambda n: [{"text": f"line {number}"} for number in draw.numbers.sample(range(10, 100), n)]),
    oracle=lambda case: [None] * case.world_size,
    technique=TECHNIQUE,
)
