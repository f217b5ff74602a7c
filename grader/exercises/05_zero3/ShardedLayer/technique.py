"""How ShardedLayer must be done, and how it can fail."""

from grader.calling.sharding import FREED, REDUCING, ROUNDS
from grader.exercises.technique.sharded_layers import each_round, not_at_rest, nothing_whole, returns_at_once, row_bytes
from grader.exercises.technique.sharding import by_collectives, first_wrong_is, gathered_and_reduced, gathers_and_reductions
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Symptom
from grader.judging.symptoms import raised

TECHNIQUE = by_collectives(
    gathered_and_reduced(lambda look, r: ROUNDS * row_bytes(look, r)),
    only_calls("all_gather", "reduce_scatter"),
    nothing_whole([FREED], "finish()"),
    returns_at_once("reduce blocks", "reduce", "reduce_scatter", REDUCING),
    bytes_sent(lambda look, r: gathers_and_reductions(look, r, row_bytes(look, r), gathers=ROUNDS, reductions=ROUNDS),
               "(n−1)/n of the flat buffer for each all-gather and reduce-scatter, in the compute dtype"),
    symptoms=(
        raised("without gradients", "unused"),
        not_at_rest(),
        raised("grad_dtype", "gradient dtype"),
        raised("NoneType", "no gradient"),
    ),
    fallbacks=(
        Symptom("base not right", first_wrong_is("pieces", *each_round(ROUNDS, "whole"))),
        Symptom("wrong gradients", first_wrong_is(*each_round(ROUNDS, "gradients", "gradients there"))),
    ),
)
