"""How shard_gradients must be done, and how it can fail."""

from grader.exercises.technique.zero import misfit, never_all_gradients, other_type, padded_bytes
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _sent(look: Look, rank: int) -> float:
    passes = len(look.case.inputs[rank]["xs"])
    return passes * bytes_sent_per_rank("reduce_scatter", padded_bytes(look, rank), look.case.group_size(rank))


TECHNIQUE = Technique(
    demands=(
        only_calls("reduce_scatter", hint="dist.reduce_scatter_single is all the communication that this exercise needs: an "
                   "all-reduce would bring every rank the whole gradient."),
        never_all_gradients(),
        bytes_sent(_sent, "(n−1)/n of the gradients' bytes a backward pass",
                   "Right, but gradients were reduced more than once a backward pass: a tied weight has one gradient."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group."),
        unwaited(),
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
