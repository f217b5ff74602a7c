"""How fitted_share must be done, and how it can fail."""

from typing import Any

from grader.evidence.case import REFUSED
from grader.evidence.evidence import RAISED
from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import every_rank


def _names(found: Any) -> Any:
    """What a ValueError named; None where none was raised."""
    return found[REFUSED] if isinstance(found, dict) and REFUSED in found else None


def _alone(look: Look) -> bool:
    return len(look.case.inputs[0]["steps"]) == 1


TECHNIQUE = arithmetic(
    Symptom("not refused", every_rank(lambda look, rank, found, right: look.refused and _names(found) is None)),
    Symptom("not named", every_rank(lambda look, rank, found, right: look.refused and _names(found) == [])),
    Symptom("other named", every_rank(lambda look, rank, found, right: look.refused and bool(_names(found)))),
    Symptom("another error", lambda look: look.refused and look.evidence.ending == RAISED),
    Symptom("one step alone", lambda look: _alone(look) and look.evidence.ending == RAISED),
)
