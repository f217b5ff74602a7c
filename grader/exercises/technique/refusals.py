"""Exercises that must refuse some sizes with a ValueError. For the way of calling them, call_splitting."""

from grader.judging.exercise import Symptom
from grader.judging.symptoms import wrong_ranks


def error_missing(hint: str) -> Symptom:
    """A result where ValueError should have been raised."""
    return Symptom("no error", hint, wrong_ranks(
        lambda look, rank, found, right: "parts" in found and "parts" not in right))


def error_without_sizes(hint: str) -> Symptom:
    """ValueError was raised, as it should have been, but does not name the sizes."""
    return Symptom("sizes not named", hint, wrong_ranks(
        lambda look, rank, found, right: "parts" not in found and "parts" not in right))
