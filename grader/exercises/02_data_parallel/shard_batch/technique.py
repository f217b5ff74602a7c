"""How shard_batch must be done, and how it can fail."""

from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import raised, wrong_ranks

TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates"),
        inputs_kept(gate=True),
    ),
    symptoms=(
        IN_GROUPS_ONLY,
    ),
    fallbacks=(
        *(raised(text, "two dims only") for text in ("values to unpack", "not enough values", "out of range")),
        Symptom("no empty share", wrong_ranks(lambda _, rank, found, right: len(found) > len(right) == 0)),
    ),
)
