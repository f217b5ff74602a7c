"""How ShardedLayer must be done, and how it can fail."""

from grader.calling.sharding import FREED, REDUCING, ROUNDS
from grader.exercises.technique.sharded_layers import each_round, not_at_rest, nothing_whole, returns_at_once, row_bytes
from grader.exercises.technique.sharding import (
    by_collectives,
    first_wrong_is,
    gathered_and_reduced,
    gathers_and_reductions,
)
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Symptom
from grader.judging.symptoms import raised

TECHNIQUE = by_collectives(
    gathered_and_reduced(lambda look, r: ROUNDS * row_bytes(look, r)),
    only_calls("all_gather", "reduce_scatter", hint=(
        "All-gather the parameters, reduce-scatter the gradients: those two are all the communication.")),
    nothing_whole([FREED], "finish()", ", and keep no buffer of whole gradients. If reduce() calls free(), look there "
                  "first: the checks of GatheredLayer and PrefetchedLayer must pass"),
    returns_at_once("reduce blocks", "reduce", "reduce_scatter", REDUCING, (
        "reduce() must return while the reduce-scatter is in flight: async_op=True, keep the Work and its tensors, wait in "
        "finish().")),
    bytes_sent(lambda look, r: gathers_and_reductions(look, r, row_bytes(look, r), gathers=ROUNDS, reductions=ROUNDS),
               "(n−1)/n of the flat buffer for each all-gather and reduce-scatter, in the compute dtype",
               "Right, but too much was sent: make one reduce-scatter for each reduce(), in the compute dtype. The buffer "
               "of gradients has the dtype of flat_Z."),
    symptoms=(
        raised("without gradients", "If no parameter has a gradient, reduce() sends nothing, but it must free the layer all "
               "the same: afterwards the layer is at rest.", "unused"),
        not_at_rest("After reduce() the layer is at rest, every p.data its slice again: reduce() must call free()."),
        raised("grad_dtype", "p.grad must have the dtype of p.data: the mean that was reduced in compute_dtype is converted "
               "before it is added.", "gradient dtype"),
        raised("NoneType", "A parameter that took no part has p.grad None, and after finish() no reduction is in flight any "
               "more: look before you use them.", "no gradient"),
    ),
    fallbacks=(
        Symptom("base not right", "The parameters are wrong before anything is reduced. They come from GatheredLayer and "
                                  "PrefetchedLayer, whose checks must pass first.",
                first_wrong_is("pieces", *each_round(ROUNDS, "whole"))),
        Symptom("wrong gradients", "The slices of the gradient aren't those of the mean over ranks. The reduce-scatter must "
                                   "sum the buffer of packed_gradients(), and own_slices(…) cuts its result; a second "
                                   "finish() adds nothing.",
                first_wrong_is(*each_round(ROUNDS, "gradients", "gradients there"))),
    ),
)
