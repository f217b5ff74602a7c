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
    only_calls("all_gather", hint="One all-gather for each gather() is all the communication."),
    nothing_whole([AT_REST, FREED], "free()"),
    gathered_again(lambda look, r: 2 * ROUNDS * row_bytes(look, r) / look.case.group_size(r), (
        "The result is right, but a gather() after free() gathered nothing, so all elements were kept somewhere. After "
        "free() only the slices may be left, and every gather() asks all ranks for their shards.")),
    *weighs_at_most({END: _states}),
    bytes_sent(lambda look, r: gathers_and_reductions(look, r, row_bytes(look, r), gathers=2 * ROUNDS, reductions=0),
               "(n−1)/n of the flat buffer for each gather, in the compute dtype",
               "Right, but too much was sent: make one all-gather for each gather(), in the compute dtype, and none if the "
               "layer is gathered already."),
    symptoms=(
        not_at_rest("After free(), which the constructor calls too, the layer is at rest: every p.data must be its slice."),
        raised("free() at rest changed", "free() does nothing at rest, but here it gave back gradients that zero_grad() had "
               "set to None. Look at is_whole first.", "given back twice"),
        raised("storage of size 0", "A view that autograd kept has no memory in backward: gather() must fill the same "
               "flat buffer again that free() emptied, not a new one. Enlarge its storage before the all-gather.",
               "another row"),
    ),
    fallbacks=(
        shard_cast("The slices aren't in the parameters' own dtype. The shard, which the optimizer updates, keeps its "
                   "dtype; only the copy that is sent is cast to compute_dtype."),
        Symptom("wrong pieces", "At rest every p.data must be this rank's slice of that parameter: own_slices(shard_C) has "
                                "them. If you didn't change the constructor, look at flat_shard: its check must pass first.",
                first_wrong_is("pieces")),
        Symptom("wrong whole", "gather() must give every p.data all its elements, in its shape: slices_of(flat_Z, shapes) "
                               "has them, flat.", first_wrong_is(*each_round(ROUNDS, "whole"))),
        Symptom("gradient in the way", "While the layer is gathered, every p.grad must be None: put the slice's gradient "
                                       "aside, or backward adds a whole gradient to a slice.",
                first_wrong_is(*each_round(ROUNDS, "gradients while whole"))),
        Symptom("views out of date", "Autograd's views have other elements in backward than in forward: the second gather() "
                                     "must bring them back into the same flat buffer.",
                first_wrong_is(*each_round(ROUNDS, "gathered again"))),
    ),
)
