"""How layers and batches are to be cut into parts, and sizes refused. For the way of calling them, call_splitting."""

from grader.evidence.evidence import RAISED
from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def cutting(no_message: str, no_error: str, not_named: str, refused: str = "",
            fallbacks: tuple[Symptom, ...] = ()) -> Technique:
    """The hints: of any call; of parts where ValueError should be raised; of a ValueError that does not name the sizes, and
    of one, or another error, where there should be none or a ValueError."""
    other = "Here another error comes up: raise ValueError, with a sentence of your own, before anything is cut."
    return Technique(
        demands=(only_calls(id="communicates", hint=no_message),),
        symptoms=(
            Symptom("no error", no_error, wrong_ranks(
                lambda look, rank, found, right: "parts" in found and "parts" not in right)),
            Symptom("sizes not named", not_named, wrong_ranks(
                lambda look, rank, found, right: "parts" not in found and "parts" not in right)),
            Symptom("another error", other, lambda look: look.evidence.ending == RAISED and "parts" not in look.right[0]),
            *([Symptom("refused", refused, wrong_ranks(
                lambda look, rank, found, right: "parts" not in found and "parts" in right))] if refused else []),
        ),
        fallbacks=fallbacks,
    )
