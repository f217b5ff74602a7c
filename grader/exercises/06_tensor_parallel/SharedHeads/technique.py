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
from grader.judging.symptoms import group_ignored, raised


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
        only_calls("all_reduce"),
        *part_only("parameters"),
        work_divided(_forward_flops),
        calls_are(FORWARD, {}),
        bytes_sent(all_reduced(_whole_bytes), "at most an all-reduce of the whole layer's gradients"),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        IN_GROUPS_ONLY,
        other_dtype(),
        raised("has changed the", "hook returns another kind"),
        raised("'NoneType'", "bias taken for granted"),
        part_missing(),
        sizes_differ("shapes"),
    ),
    fallbacks=(
        Symptom("wrong part", first_wrong("parameters")),
        Symptom("wrong gradients", first_wrong("gradients")),
        sizes_taken("sizes not checked"),
    ),
)
