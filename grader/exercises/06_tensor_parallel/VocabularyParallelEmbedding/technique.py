"""How VocabularyParallelEmbedding must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.exercises.technique.splitting import (
    all_reduces,
    first_wrong,
    only_all_reduce,
    own_numbers,
    own_storage,
    refused,
    sizes_taken,
)
from grader.judging.demands import bytes_sent, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

TOLERANCE = 1e-6
PARTS = ("weight", "y", "dweight")


def _result_bytes(look: Look, rank: int) -> int:
    return look.case.inputs[rank]["weights"].nbytes


def _sent(look: Look, rank: int) -> float:
    return bytes_sent_per_rank("all_reduce", 0 if refused(look) else _result_bytes(look, rank), look.case.group_size(rank))


TECHNIQUE = Technique(
    demands=(
        only_all_reduce("One all-reduce of the result is all that is needed: neither the table nor the parts are gathered."),
        own_numbers(lambda look, r: look.right[r]["weight"].numel(),
                    "The result is right, but a rank keeps more rows than its own V/n."),
        own_storage(lambda look, r: look.right[r]["weight"].nbytes,
                    "The result is right, but weight is a view that keeps the whole table alive: clone the own rows."),
        all_reduces(BACKWARD, lambda look, r: 0, _result_bytes, "all-reduce backward", "nothing sent in backward",
                    "The result is right, but backward communicates: dy is whole on every rank already."),
        all_reduces(FORWARD, lambda look, r: 1, _result_bytes, "not one all-reduce forward", "one all-reduce, forward",
                    "The result is right, but forward does not take exactly one all-reduce of the result."),
        bytes_sent(_sent, "one all-reduce of (…, D)", "The result is right, but more is sent than one all-reduce of it."),
        results_waited(),
    ),
    symptoms=(
        raised("index", "An id lies outside the own rows: subtract the first own row, and look up row 0 for foreign ids.",
               "ids not shifted"),
        group_ignored("The ranks of other groups are touched: pass group to every call, and ask for the rank in the group."),
        unwaited(),
    ),
    fallbacks=(
        Symptom("wrong rows", "weight is not this rank's part of the table: rows r·V/n to (r+1)·V/n.",
                first_wrong("weight", PARTS, tolerance=TOLERANCE)),
        Symptom("wrong y", "The rows are right, y is not: each id's row comes from the one rank that has it, the others add "
                           "0.", first_wrong("y", PARTS, tolerance=TOLERANCE)),
        Symptom("foreign ids in gradient", "y is right, the gradient is not: ids of other ranks must add nothing to it, not "
                                           "even to row 0. Multiply by the mask where autograd sees it.",
                first_wrong("dweight", PARTS, tolerance=TOLERANCE)),
        sizes_taken("sizes not checked", "A vocabulary that n does not divide must be refused: raise ValueError naming both "
                                         "(in practice it is padded)."),
    ),
)
