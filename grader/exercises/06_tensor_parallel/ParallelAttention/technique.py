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
from grader.judging.symptoms import group_ignored, raised, unwaited


def _forward_flops(look: Look, rank: int) -> list[float]:
    """The four layers, and the scores and their sums."""
    inputs = look.case.inputs[rank]
    b, t, _ = inputs["x"].shape
    weights = sum(inputs[name]["weight"].numel() for name in ("q", "k", "v", "out"))
    return [2.0 * b * t * weights + 4.0 * b * t * t * inputs["q"]["weight"].shape[0]]


TECHNIQUE = Technique(
    demands=(
        sums_needed(lambda look, r: 2 * tensor_bytes(look, r)),
        only_calls("all_reduce", hint=(
            "All-reduce is all that attention needs: one of y in forward and one of dx in backward. Nothing is gathered.")),
        *part_only("parameters",
                   "The result is right, but a rank holds more than its own heads: q's, k's and v's rows, out's columns, "
                   "and out's bias.",
                   "The result is right, but the parameters are views that keep the whole weights alive: clone your "
                   "part."),
        work_divided(_forward_flops),
        all_reduces(FORWARD, lambda look, r: 1, tensor_bytes,
                    "not one all-reduce forward", "one all-reduce of y, forward",
                    "The result is right, but forward does not take exactly one all-reduce of (B, T, D): only out's result "
                    "is summed."),
        all_reduces(BACKWARD, lambda look, r: 1, tensor_bytes,
                    "not one all-reduce backward", "one all-reduce of dx, backward",
                    "The result is right, but backward takes more than one all-reduce of dx: q, k and v each have an f of "
                    "their own. Apply f once, and give its result to all three."),
        bytes_sent(all_reduced(lambda look, r: 2 * tensor_bytes(look, r)), "two all-reduces of (B, T, D)",
                   "The result is right, but more is sent than y and dx: no gradient of a weight needs a sum, because every "
                   "head is on one rank only."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group to every layer and every call."),
        IN_GROUPS_ONLY,
        unwaited(),
        other_dtype(),
        raised("'NoneType'", "A layer may have no bias: then your part's bias is None as well.", "bias taken for granted"),
        part_missing("The layers must be called q, k, v and out, each with a weight and a bias (or None)."),
        sizes_differ("The sizes do not fit: a rank has H/n query heads and H_kv/n heads of k and v. K, the size of a head, "
                     "is the number of q's rows divided by n_heads.", "shapes"),
    ),
    fallbacks=(
        Symptom("wrong part", "The parameters are not this rank's part: rows of whole heads of q, k and v, the same "
                              "columns of out, out's bias whole.", first_wrong("parameters")),
        Symptom("wrong y", "The parts are right, y is not: each rank has H/n query heads of the old size K, q comes as "
                           "(heads, K), and a position sees itself and earlier ones.", first_wrong("y")),
        Symptom("wrong dx", "y is right, dx is not: backward needs one all-reduce of it.", first_wrong("dx")),
        Symptom("wrong gradients", "y and dx are right, a weight's or bias's gradient is not: it is what this rank has "
                                   "computed, neither summed nor averaged over ranks.",
                first_wrong("gradients")),
        sizes_taken("sizes not checked", "Heads that do not fit must be refused, although the rows can be divided: raise a "
                                         "ValueError that names both numbers if n does not divide n_kv_heads."),
    ),
)
