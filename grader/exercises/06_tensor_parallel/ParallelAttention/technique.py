"""How ParallelAttention must be done, and how it can fail."""

from typing import Any

from grader.calling.splitting import BACKWARD, FORWARD
from grader.evidence.evidence import RAISED
from grader.exercises.technique.splitting import (
    TOLERANCE,
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
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, raised, unwaited

KV = ("k.weight", "k.bias", "v.weight", "v.bias")


def _reduced_bytes(look: Look, rank: int) -> int:
    """y and dx; where ranks share a head k's and v's whole gradients too, each padded to all heads."""
    inputs, activations = look.case.inputs[rank], 2 * tensor_bytes(look, rank)
    if look.case.group_size(rank) <= inputs["n_kv_heads"]:
        return activations
    return activations + sum(tensor.nbytes for name in ("k", "v") for tensor in inputs[name].values() if tensor is not None)


def _only_kv(look: Look, rank: int, found: dict[str, Any]) -> bool:
    """Of the parameters those of k and v alone are wrong."""
    right = look.right[rank]["parameters"]
    return all(same(found[name], tensor, TOLERANCE) for name, tensor in right.items() if name not in KV)


def _shared_refused(look: Look) -> bool:
    """In a case that has more ranks than heads of k and v."""
    rank = look.working[0]
    return (look.evidence.ending == RAISED and "ValueError" in look.evidence.error and not look.refused
            and look.case.group_size(rank) > look.case.inputs[rank]["n_kv_heads"])


def _forward_flops(look: Look, rank: int) -> list[float]:
    """The four layers, of which ranks that share a head of k and v each compute it, and the scores and their sums."""
    inputs, n = look.case.inputs[rank], look.case.group_size(rank)
    (b, t, _), times = inputs["x"].shape, max(1.0, n / inputs["n_kv_heads"])
    weights = {name: inputs[name]["weight"].numel() for name in ("q", "k", "v", "out")}
    products = 2.0 * b * t * (weights["q"] + weights["out"] + times * (weights["k"] + weights["v"]))
    return [products + 4.0 * b * t * t * inputs["q"]["weight"].shape[0]]


TECHNIQUE = Technique(
    demands=(
        sums_needed(lambda look, r: 2 * tensor_bytes(look, r)),
        only_calls("all_reduce", hint=(
            "All-reduce is all that attention needs: one of y in forward, one of dx in backward, and the gradients of k and "
            "v where ranks share a head. Nothing is gathered.")),
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
        bytes_sent(all_reduced(_reduced_bytes), "two all-reduces of (B, T, D), and shared gradients",
                   "The result is right, but more is sent than y, dx and, where ranks share a head, the gradients of k and "
                   "v."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group to every layer and every call."),
        IN_GROUPS_ONLY,
        unwaited(),
        other_dtype(),
        raised("'NoneType'", "A layer may have no bias: then your part's bias is None as well.", "bias taken for granted"),
        part_missing("The layers must be called q, k, v and out, each with a weight and a bias (or None)."),
        Symptom("shared heads refused", "There is a ValueError although n is a multiple of n_kv_heads: then several ranks "
                                        "hold the same head of k and v.", _shared_refused),
        sizes_differ("The sizes do not fit: a rank has H/n query heads and max(1, H_kv/n) heads of k and v; how many query "
                     "heads share one of these follows from the rank's own numbers, and K, the size of a head, from q's "
                     "rows, of which each head has K.", "shapes"),
    ),
    fallbacks=(
        Symptom("wrong kv head", "The rows of q are right, those of k and v are not: query head h belongs to key and value "
                                 "head h // (H / H_kv), so rank r starts at r·H_kv // n.",
                first_wrong("parameters", _only_kv)),
        Symptom("wrong part", "The parameters are not this rank's part: rows of whole heads of q, k and v, the same "
                              "columns of out, out's bias whole.", first_wrong("parameters")),
        Symptom("wrong y", "The parts are right, y is not: each rank has H/n query heads of the old size K, q comes as "
                           "(heads, K), and a position sees itself and earlier ones.", first_wrong("y")),
        Symptom("wrong dx", "y is right, dx is not: backward needs one all-reduce of it.", first_wrong("dx")),
        Symptom("wrong gradients", "y and dx are right, a weight's or bias's gradient is not: of shared heads it is "
                                   "the sum over those who hold them, of all else what this rank has computed.",
                first_wrong("gradients")),
        sizes_taken("sizes not checked", "Heads that do not fit must be refused: a ValueError that names both numbers if n "
                                         "does not divide n_heads, or if neither of n and n_kv_heads divides the other."),
    ),
)
