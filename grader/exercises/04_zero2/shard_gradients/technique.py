"""How shard_gradients must be done, and how it can fail."""

from grader.exercises.technique.sharding import by_collectives, gathers_and_reductions
from grader.exercises.technique.zero import misfit, never_all_gradients, other_type, padded_bytes
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import raised, wrong_ranks


def _sent(look: Look, rank: int) -> float:
    passes = len(look.case.inputs[rank]["xs"])
    return gathers_and_reductions(look, rank, padded_bytes(look, rank), gathers=0, reductions=passes)


TECHNIQUE = by_collectives(
    only_calls("reduce_scatter", hint="dist.reduce_scatter_single is all the communication that this exercise needs: an "
               "all-reduce would bring every rank the whole gradient."),
    never_all_gradients(),
    bytes_sent(_sent, "(n−1)/n of the gradients' bytes a backward pass",
               "Right, but gradients were reduced more than once a backward pass: a tied weight has one gradient."),
    group_hint="The ranks of other groups are touched: pass group=group.",
    symptoms=(
        other_type(),
        misfit(),
        raised("require grad", "A frozen parameter takes no hook: only those with requires_grad have a gradient.",
               "frozen hooked"),
        raised("KeyError", "In the first pass a parameter has no shard yet to add to.", "first pass"),
    ),
    fallbacks=(
        Symptom("gradients left", "The shards are right, but gradients still stand after the backward pass: set p.grad to "
                                  "None in the hook.", wrong_ranks(
                                      lambda look, r, result, right: same(result["shards"], right["shards"]))),
    ),
)
