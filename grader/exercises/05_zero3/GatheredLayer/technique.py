"""How GatheredLayer must be done, and how it can fail."""

from grader.calling.sharding import AT_REST, FREED, ROUNDS
from grader.calling.weighing import END
from grader.exercises.technique.sharded_layers import each_round, not_at_rest, nothing_whole, row_bytes, shard_cast
from grader.exercises.technique.sharding import by_collectives, first_wrong_is, gathered_again, gathers_and_reductions
from grader.exercises.technique.weights import weighs_at_most
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import raised


def _states(look: Look, rank: int) -> float:
    """What the call keeps: the parameters at the start, all elements twice in each round, and slices once; and the shard."""
    whole = sum(p.nbytes for p in look.case.inputs[rank]["parameters"])
    return whole * (1 + 2 * ROUNDS + (2 + ROUNDS) / look.case.group_size(rank))


TECHNIQUE = by_collectives(
    needs(lambda look, r: [("all_gather", ROUNDS * row_bytes(look, r))]),
    only_calls("all_gather"),
    nothing_whole([AT_REST, FREED], "free()"),
    gathered_again(lambda look, r: 2 * ROUNDS * row_bytes(look, r) / look.case.group_size(r)),
    *weighs_at_most({END: _states}),
    bytes_sent(lambda look, r: gathers_and_reductions(look, r, row_bytes(look, r), gathers=2 * ROUNDS, reductions=0),
               "(n−1)/n of the flat buffer for each gather, in the compute dtype"),
    symptoms=(
        not_at_rest(),
        raised("free() at rest changed", "given back twice"),
        raised("storage of size 0", "another row"),
    ),
    fallbacks=(
        shard_cast(),
        Symptom("wrong pieces", first_wrong_is("pieces")),
        Symptom("wrong whole", first_wrong_is(*each_round(ROUNDS, "whole", "gathered again"))),
        Symptom("gradient in the way", first_wrong_is(*each_round(ROUNDS, "gradients while whole"))),
    ),
)
