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
from grader.judging.symptoms import group_ignored, raised, unwaited

TOLERANCE = 1e-6


def _result_bytes(look: Look, rank: int) -> int:
    return tensor_bytes(look, rank, "weights")


TECHNIQUE = Technique(
    demands=(
        sums_needed(_result_bytes),
        only_calls("all_reduce", hint=(
            "One all-reduce of the result is all that is needed: neither the table nor the parts are gathered.")),
        *part_only("weight", "The result is right, but a rank keeps more rows than its own V/n.",
                   "The result is right, but weight is a view that keeps the whole table alive: clone your rows."),
        *weighs_at_most({END: shares(3.4, lambda look, r: look.case.inputs[r]["table"].nbytes)}),  # gradient, and a copy
        all_reduces(BACKWARD, lambda look, r: 0, _result_bytes, "all-reduce backward", "nothing sent in backward",
                    "The result is right, but backward communicates: dy is whole on every rank already."),
        all_reduces(FORWARD, lambda look, r: 1, _result_bytes, "not one all-reduce forward", "one all-reduce, forward",
                    "The result is right, but forward does not take exactly one all-reduce of the result."),
        bytes_sent(all_reduced(_result_bytes), "one all-reduce of (…, D)",
                   "The result is right, but more is sent than one all-reduce of it."),
        inputs_kept("The result is right, but the ids were changed in place: others still need them, the next rank's "
                    "embedding or the loss."),
        results_waited(),
    ),
    symptoms=(
        raised("index", "An id lies outside your rows: subtract your first row from ids with start ≤ id < stop, and "
               "look up row 0 for all others.",
               "ids not shifted"),
        group_ignored("The ranks of other groups are touched: pass group to every call, and ask for the rank in the group."),
        IN_GROUPS_ONLY,
        unwaited(),
        other_dtype(),
        part_missing("The rows that a rank keeps must be called weight, an nn.Parameter."),
        raised("values to unpack", "ids may have any number of dims: F.embedding takes them all.", "ids of one shape only"),
        sizes_differ("The sizes do not fit: your rows are a piece of dim 0 of the table, (V/n, D).", "shapes"),
    ),
    fallbacks=(
        Symptom("wrong rows", "weight is not this rank's part of the table: rows r·V/n to (r+1)·V/n.",
                first_wrong("weight", tolerance=TOLERANCE)),
        Symptom("wrong y", "The rows are right, y is not: each id's row comes from the one rank that has it (start ≤ id < "
                           "stop), the others add 0.", first_wrong("y", tolerance=TOLERANCE)),
        Symptom("foreign ids in gradient", "y is right, the gradient is not: ids of other ranks must add nothing to it, not "
                                           "even to row 0. Multiply by the mask where autograd sees it.",
                first_wrong("dweight", tolerance=TOLERANCE)),
        sizes_taken("sizes not checked", "A vocabulary that n does not divide must be refused: raise ValueError naming both "
                                         "(in practice it is padded)."),
    ),
)
