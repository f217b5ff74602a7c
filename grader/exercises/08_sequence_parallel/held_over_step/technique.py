"""How held_over_step must be done, and how it can fail."""

from typing import Any

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import every_rank


def _other_length(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return isinstance(found, list) and len(found) != len(expected)


def _first_wrong_in_forward(look: Look, rank: int, found: Any, expected: Any) -> bool:
    n = len(expected) // 3
    return isinstance(found, list) and not same(found[:n], expected[:n], 1e-9)


TECHNIQUE = arithmetic(
    Symptom("other length", "Return three numbers for each segment in one list: first one for each forward pass, then two "
                            "for each backward pass. Without segments the list is empty.", every_rank(_other_length)),
    fallbacks=(
        Symptom("forward wrong", "The first numbers are wrong. After a segment's forward pass the rank holds what this "
                                 "segment and all before it keep.", every_rank(_first_wrong_in_forward)),
        Symptom("backward wrong", "Forward is right, backward isn't. Go from the last segment to the first. When a "
                                  "segment's backward pass begins, it holds `whole`, and all before it hold what they "
                                  "kept. When it is over, only those before it hold something.",
                every_rank(lambda look, rank, found, expected: isinstance(found, list))),
    ),
)
