"""How ScatterSequence must be done, and how it can fail."""

from grader.exercises.technique.sequences import (
    first_wrong_has_its_shape,
    first_wrong_is,
    function_symptoms,
    not_refused,
    written_over,
)
from grader.exercises.technique.sharding import gathered_and_reduced, gathers_and_reductions
from grader.judging.demands import bytes_sent, inputs_kept, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY

TECHNIQUE = Technique(
    demands=(
        # Two calls forward, one backward, as call_sequence_function makes them.
        gathered_and_reduced(tensor_bytes, reductions=2),
        only_calls("reduce_scatter", "all_gather", hint=(
            "A reduce-scatter forward, an all-gather backward, nothing else: after an all-reduce each rank would have sums "
            "for all positions, and throw most of them away.")),
        bytes_sent(lambda look, rank: gathers_and_reductions(look, rank, tensor_bytes(look, rank), reductions=2),
                   "(n−1)/n of the whole tensor's bytes in each pass",
                   "Right, but more was sent than one reduce-scatter of x and one all-gather of the gradient."),
        inputs_kept("The result is right, but x, or the gradient dy that autograd handed in, was changed on the way: others "
                    "may still need it. A collective's output needs a tensor of its own."),
        results_waited(),
    ),
    symptoms=(
        written_over(),
        *function_symptoms("dx and None"),
        not_refused("A sequence that the ranks do not divide, or an empty one, must raise a ValueError that names both "
                    "sizes, before any call."),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("wrong gradient", "y is right and dx has the shape of x, but its elements are others: the ranks' shards of "
                                  "dy, one after another.", first_wrong_has_its_shape("dx")),
        Symptom("gradient of another shape", "y is right, dx is not: it has the shape of x, the whole sequence.",
                first_wrong_is("dx")),
        Symptom("wrong result", "y is not shard r, (S/n, B, D), of the sum over ranks.", first_wrong_is("y")),
    ),
)
