"""How shard_gradients must be done, and how it can fail."""

from grader.calling.weighing import GRADIENT
from grader.exercises.technique import zero
from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.exercises.technique.sharding import by_collectives, gathers_and_reductions
from grader.exercises.technique.training import given_in_backward
from grader.exercises.technique.weights import models, weighs_at_most
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised, wrong_ranks


def _whole_length(look: Look, rank: int, result: dict, right: dict) -> bool:
    n = look.case.group_size(rank)
    return n > 1 and all(result["shards"][name].numel() > (n - 1) * len(shard) for name, shard in right["shards"].items())


def _only_padding(look: Look, rank: int, result: dict, right: dict) -> bool:
    """All that is not 0 is right."""
    return all(same(result["shards"][name][shard != 0], shard[shard != 0]) for name, shard in right["shards"].items())


def _sent(look: Look, rank: int) -> float:
    passes = len(look.case.inputs[rank]["xs"])
    return gathers_and_reductions(look, rank, zero.padded_bytes(look, rank), gathers=0, reductions=passes)


TECHNIQUE = by_collectives(
    zero.trained_needed(lambda look, r: 1, "reduce_scatter"),
    only_calls("reduce_scatter", hint="dist.reduce_scatter_single is all the communication that this exercise needs: an "
               "all-reduce would bring every rank the whole gradient."),
    zero.never_all_gradients(),
    zero.nothing_else_kept("The result is right, but after the passes more is kept than the shards: whole gradients, or "
                           "flat copies of them. Whoever keeps a slice of a tensor keeps all of it: clone() the slice."),
    *weighs_at_most({GRADIENT: models(1.1, each_share=1)}),
    zero.own_dtypes(),
    Demand("reduced later", "each backward pass reduces its gradients", (
        "The shards are right, but gradients are kept whole and reduced later: reduce-scatter each one in its hook, as soon "
        "as it is there."), on_each_rank(given_in_backward("reduce_scatter"))),
    bytes_sent(_sent, "(n−1)/n of the gradients' bytes a backward pass",
               "Right, but gradients were reduced more than once a backward pass: a tied weight has one gradient."),
    group_hint="The ranks of other groups are touched: pass group=group.",
    symptoms=(
        zero.other_type(),
        raised("view size is not compatible", "A gradient lies in memory as its parameter does, perhaps column by column: "
               "then view(-1) refuses it. flatten() or reshape(-1) copies where it must.", "viewed flat"),
        zero.misfit(),
        zero.hooked_twice(),
        Symptom("other keys", "The dictionary's keys are the parameters themselves, as the hook gets them, not their names.",
                wrong_ranks(lambda look, r, result, right: bool(result["shards"]) and not (
                    result["shards"].keys() & right["shards"].keys()))),
        raised("require grad", "A frozen parameter takes no hook: only those with requires_grad have a gradient.",
               "frozen hooked"),
        raised("KeyError", "In the first pass a parameter has no shard yet to add to.", "first pass"),
    ),
    fallbacks=(
        Symptom("gradients left", "The shards are right, but gradients are still there after the backward pass: set p.grad "
                                  "to None in the hook.", wrong_ranks(
                                      lambda look, r, result, right: same(result["shards"], right["shards"]))),
        Symptom("more than gradients", "The dictionary has shards for what got no gradient (frozen, or unused): put one in "
                                       "when a gradient comes.", wrong_ranks(
                                           lambda look, r, result, right: result["shards"].keys() > right["shards"].keys())),
        Symptom("not a piece", "A shard has ⌈numel/n⌉ elements, those of this rank alone: yours are as long as the whole.",
                wrong_ranks(_whole_length)),
        Symptom("padding not zero", "Right but for the padding at the end, which is to be zeros.",
                wrong_ranks(_only_padding)),
    ),
)
