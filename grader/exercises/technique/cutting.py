"""How layers and batches are to be cut into parts, and sizes refused. For the way of calling them, call_splitting."""

from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def cutting(no_message: str, no_error: str, not_named: str) -> Technique:
    """The hints: of any call; of parts where ValueError should be raised; of a ValueError that does not name the sizes."""
    return Technique(
        demands=(only_calls(id="communicates", hint=no_message),),
        symptoms=(
            Symptom("no error", no_error, wrong_ranks(
                lambda look, rank, found, right: "parts" in found and "parts" not in right)),
            Symptom("sizes not named", not_named, wrong_ranks(
                lambda look, rank, found, right: "parts" not in found and "parts" not in right)),
        ),
    )
