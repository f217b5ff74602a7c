"""How VocabularyParallelEmbedding must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.calling.weighing import END
from grader.exercises.technique.splitting import (
    all_reduced,
    all_reduces,
    first_wrong,
    other_dtype,
    part_missing,
    part_only,
    sizes_differ,
    sizes_taken,
    sums_needed,
)
from grader.exercises.technique.weights import shares, weighs_at_most
from grader.judging.demands import bytes_sent, inputs_kept, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, raised


def _result_bytes(look: Look, rank: int) -> int:
    return tensor_bytes(look, rank, "weights")


TECHNIQUE = Technique(
    demands=(
        sums_needed(_result_bytes),
        only_calls("all_reduce"),
        *part_only("weight"),
        *weighs_at_most({END: shares(3.4, lambda look, r: look.case.inputs[r]["table"].nbytes)}),  # gradient, and a copy
        all_reduces(BACKWARD, lambda look, r: 0, _result_bytes, "all-reduce backward", "nothing sent in backward"),
        all_reduces(FORWARD, lambda look, r: 1, _result_bytes, "not one all-reduce forward", "one all-reduce, forward"),
        bytes_sent(all_reduced(_result_bytes), "one all-reduce of (…, D)"),
        inputs_kept(),
        results_waited(),
    ),
    symptoms=(
        raised("index", "ids not shifted"),
        group_ignored(),
        IN_GROUPS_ONLY,
        other_dtype(),
        part_missing(),
        raised("values to unpack", "ids of one shape only"),
        sizes_differ("shapes"),
    ),
    fallbacks=(
        Symptom("wrong rows", first_wrong("weight")),
        Symptom("wrong y", first_wrong("y")),
        Symptom("foreign ids in gradient", first_wrong("dweight")),
        sizes_taken("sizes not checked"),
    ),
)
