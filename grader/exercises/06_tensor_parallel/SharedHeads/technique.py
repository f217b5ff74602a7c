"""How SharedHeads must be done, and how it can fail."""

from grader.calling.splitting import FORWARD
from grader.exercises.technique.splitting import (
    all_reduced,
    calls_are,
    first_wrong,
    other_dtype,
    part_missing,
    part_only,
    sizes_differ,
    sizes_taken,
    sums_needed,
    work_divided,
)
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, raised, unwaited


def _head_bytes(look: Look, rank: int) -> int:
    """What ranks with the same head must sum; nothing where each has a head of its own."""
    shared = look.case.group_size(rank) > look.case.inputs[rank]["n_kv_heads"]
    return shared * _whole_bytes(look, rank) // look.case.inputs[rank]["n_kv_heads"]


def _whole_bytes(look: Look, rank: int) -> int:
    """The gradients of the whole layer: a slot for every head."""
    return sum(tensor.nbytes for tensor in look.case.inputs[rank]["linear"].values() if tensor is not None)


def _forward_flops(look: Look, rank: int) -> list[float]:
    """Ranks that hold the same head each compute it."""
    inputs = look.case.inputs[rank]
    rows = inputs["x"].numel() // inputs["x"].shape[-1]
    return [2.0 * rows * inputs["linear"]["weight"].numel() * look.case.group_size(rank) / inputs["n_kv_heads"]]


TECHNIQUE = Technique(
    demands=(
        sums_needed(_head_bytes),
        only_calls("all_reduce", hint="All-reduces of gradients are all that this layer needs. Nothing is gathered."),
        *part_only("parameters",
                   "The result is right, but a rank holds more than the rows of its one head.",
                   "The result is right, but the parameters are views that keep the whole weight alive: clone your rows."),
        work_divided(_forward_flops),
        calls_are(FORWARD, {}, "The result is right, but forward communicates: x is whole already, and y is this rank's."),
        bytes_sent(all_reduced(_whole_bytes), "at most an all-reduce of the whole layer's gradients",
                   "The result is right, but more is sent than an all-reduce of the whole layer's gradients: one slot for "
                   "each head of k and v is enough, not one for each rank."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group to every call."),
        IN_GROUPS_ONLY,
        unwaited(),
        other_dtype(),
        raised("has changed the", "The hook returns a tensor of another dtype or shape than the gradient that it got: make "
               "the slots by gradient.new_zeros, and return your own slot.", "hook returns another kind"),
        raised("'NoneType'", "A layer may have no bias: then your bias is None as well.", "bias taken for granted"),
        part_missing("The layer must have a weight and a bias (or None)."),
        sizes_differ("The sizes do not fit: a rank has one head, and a head has K rows, the layer's outputs divided by "
                     "n_kv_heads.", "shapes"),
    ),
    fallbacks=(
        Symptom("wrong part", "The parameters are not this rank's head: rank r takes the K rows of head r·H_kv // n, and "
                              "the same elements of the bias.", first_wrong("parameters")),
        Symptom("wrong y", "The parameters are right, y is not: x·Wᵀ + b with this head's rows.", first_wrong("y")),
        Symptom("wrong dx", "y is right, dx is not: it is this rank's own term, which f in front of the layer sums later.",
                first_wrong("dx")),
        Symptom("wrong gradients", "y and dx are right, the gradient of the weight or of the bias is not: it is the sum "
                                   "over the ranks that hold the same head, and over no others.", first_wrong("gradients")),
        sizes_taken("sizes not checked", "Heads that do not fit must be refused: raise a ValueError that names both numbers "
                                         "if n_kv_heads does not divide n."),
    ),
)
