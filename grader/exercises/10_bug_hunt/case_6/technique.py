"""What is demanded of case_6, and how it can fail."""

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.hunted import gradients_once, gradients_summed, repaired
from grader.judging.exercise import Look, Symptom


def _twice(look: Look) -> bool:
    """Twice the bytes were sent that a reduction of all gradients takes."""
    return look.evidence.ending == RETURNED and all(
        look.evidence.trace.bytes_sent(rank) > 1.5 * gradients_once(look, rank) > 0 for rank in look.working)


TECHNIQUE = repaired(
    gradients_once,
    gradients_summed,
    symptoms=(
        Symptom("untouched", _twice),
    ),
)
