"""How split_batch must be done, and how it can fail."""

from typing import Any

from grader.evidence.evidence import RAISED
from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def _numbers(result: dict[str, Any]) -> list[list]:
    return [part.flatten().tolist() for part in result["parts"]]


TECHNIQUE = Technique(
    call="pipelining:call_splitting",
    demands=(only_calls(id="communicates"),),
    symptoms=(
        Symptom("no error", wrong_ranks(lambda look, rank, found, right: "parts" in found and "parts" not in right)),
        Symptom("sizes not named",
                wrong_ranks(lambda look, rank, found, right: "parts" not in found and "parts" not in right)),
        Symptom("another error", lambda look: look.evidence.ending == RAISED and "parts" not in look.right[0]),
        Symptom("refused", wrong_ranks(lambda look, rank, found, right: "parts" not in found and "parts" in right)),
    ),
    fallbacks=(
        Symptom("shape changed", wrong_ranks(lambda look, rank, found, right: _numbers(found) == _numbers(right))),
        Symptom("number of pieces", wrong_ranks(lambda look, rank, found, right: [*map(len, found["parts"])] != [
            *map(len, right["parts"])])),
    ),
)
