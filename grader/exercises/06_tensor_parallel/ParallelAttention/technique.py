"""How ParallelAttention must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
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
    work_divided,
)
from grader.judging.demands import bytes_sent, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, raised


def _forward_flops(look: Look, rank: int) -> list[float]:
    """The four layers, and the scores and their sums."""
    inputs = look.case.inputs[rank]
    b, t, _ = inputs["x"].shape
    weights = sum(inputs[name]["weight"].numel() for name in ("q", "k", "v", "out"))
    return [2.0 * b * t * weights + 4.0 * b * t * t * inputs["q"]["weight"].shape[0]]


TECHNIQUE = Technique(
    demands=(
        sums_needed(lambda look, r: 2 * tensor_bytes(look, r)),
        only_calls("all_reduce"),
        *part_only("parameters"),
        work_divided(_forward_flops),
        all_reduces(FORWARD, lambda look, r: 1, tensor_bytes, "not one all-reduce forward", "one all-reduce of y, forward"),
        all_reduces(BACKWARD, lambda look, r: 1, tensor_bytes, "not one all-reduce backward",
                    "one all-reduce of dx, backward"),
        bytes_sent(all_reduced(lambda look, r: 2 * tensor_bytes(look, r)), "two all-reduces of (B, T, D)"),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        IN_GROUPS_ONLY,
        other_dtype(),
        raised("'NoneType'", "bias taken for granted"),
        part_missing(),
        sizes_differ("shapes"),
    ),
    fallbacks=(
        Symptom("wrong part", first_wrong("parameters")),
        Symptom("wrong y", first_wrong("y")),
        Symptom("wrong dx", first_wrong("dx")),
        Symptom("wrong gradients", first_wrong("gradients")),
        sizes_taken("sizes not checked"),
    ),
)
