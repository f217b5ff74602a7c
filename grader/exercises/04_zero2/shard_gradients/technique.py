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


def _only_padding(look: Look, rank: int, result: dict, right: dict) -> bool:
    """All that is not 0 is right."""
    return all(same(result["shards"][name][shard != 0], shard[shard != 0]) for name, shard in right["shards"].items())


def _sent(look: Look, rank: int) -> float:
    passes = len(look.case.inputs[rank]["xs"])
    return gathers_and_reductions(look, rank, zero.padded_bytes(look, rank), gathers=0, reductions=passes)


TECHNIQUE = by_collectives(
    zero.trained_needed(lambda look, r: 1, "reduce_scatter"),
    only_calls("reduce_scatter"),
    zero.never_all_gradients(),
    zero.nothing_else_kept(),
    *weighs_at_most({GRADIENT: models(1.1, each_share=1)}),
    zero.own_dtypes(),
    Demand("reduced later", "each backward pass reduces its gradients", on_each_rank(given_in_backward("reduce_scatter"))),
    bytes_sent(_sent, "(n−1)/n of the gradients' bytes a backward pass"),
    symptoms=(
        zero.other_type(),
        raised("view size is not compatible", "not contiguous"),
        zero.misfit(),
        zero.hooked_twice(),
        raised("require grad", "frozen hooked"),
        raised("KeyError", "first pass"),
    ),
    fallbacks=(
        Symptom("gradients left", wrong_ranks(lambda look, r, result, right: same(result["shards"], right["shards"]))),
        Symptom("more than gradients",
                wrong_ranks(lambda look, r, result, right: result["shards"].keys() > right["shards"].keys())),
        Symptom("padding not zero", wrong_ranks(_only_padding)),
    ),
)
