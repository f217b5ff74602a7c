"""How activation_bytes must be done, and how it can fail."""

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Symptom


def _only(id: str, *ways: str) -> Symptom:
    """Wrong with these ways of recomputing. The more ways a symptom has, the later it comes: then those few are not all."""
    return Symptom(id, lambda look: look.case.inputs[0]["recompute"] in ways)


TECHNIQUE = arithmetic(
    fallbacks=(
        _only("full wrong", "full"),
        _only("selective wrong", "selective"),
        _only("none wrong", "none"),
        _only("linear wrong", "none", "selective"),
    ),
)
