"""How held_over_step must be done, and how it can fail."""

from typing import Any

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import every_rank


def _other_length(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return not isinstance(found, list) or len(found) != len(expected)


def _first_wrong_in_forward(look: Look, rank: int, found: Any, expected: Any) -> bool:
    n = len(expected) // 3
    return isinstance(found, list) and not look.same(found[:n], expected[:n])


TECHNIQUE = arithmetic(
    Symptom("other length", every_rank(_other_length)),
    fallbacks=(
        Symptom("forward wrong", every_rank(_first_wrong_in_forward)),
        Symptom("backward wrong", every_rank(lambda look, rank, found, expected: isinstance(found, list))),
    ),
)
