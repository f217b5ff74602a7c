"""How relayout must be done, and how it can fail."""

from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks

TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates"),
        inputs_kept(gate=True),
    ),
    symptoms=(
        raised("KeyError", "not in this file"),
    ),
    fallbacks=(
        Symptom("names missing", wrong_ranks(lambda look, rank, found, right: found.keys() < right.keys())),
    ),
)
