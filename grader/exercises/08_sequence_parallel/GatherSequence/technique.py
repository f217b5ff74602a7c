"""How GatherSequence must be done, and how it can fail."""

from grader.exercises.technique.sequences import (
    first_wrong_has_its_shape,
    first_wrong_is,
    function_symptoms,
    whole_bytes,
    written_over,
)
from grader.exercises.technique.sharding import gathered_and_reduced, gathers_and_reductions
from grader.judging.demands import bytes_sent, inputs_kept, only_calls, results_waited
from grader.judging.exercise import Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY

TECHNIQUE = Technique(
    demands=(
        # Two calls forward, one backward, as call_sequence_function makes them.
        gathered_and_reduced(whole_bytes, gathers=2),
        only_calls("all_gather", "reduce_scatter", hint=(
            "An all-gather forward, a reduce-scatter backward, nothing else: an all-reduce moves twice the bytes and leaves "
            "every rank gradients of positions that are not its own.")),
        bytes_sent(lambda look, rank: gathers_and_reductions(look, rank, whole_bytes(look, rank), gathers=2),
                   "(n−1)/n of the whole tensor's bytes in each pass",
                   "Right, but more was sent than one all-gather of x and one reduce-scatter of its gradient."),
        inputs_kept("The result is right, but x, or the gradient dy that autograd handed in, was changed on the way: others "
                    "may still need it. A collective's output needs a tensor of its own."),
        results_waited(),
    ),
    symptoms=(written_over(), *function_symptoms("dx and None")),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("wrong gradient", "y is right and dx has the shape of x, but its elements are others: shard r of the sum "
                                  "over ranks of dy.", first_wrong_has_its_shape("dx")),
        Symptom("gradient of another shape", "y is right, dx is not: it has the shape of x, one shard of the sequence.",
                first_wrong_is("dx")),
        Symptom("wrong result", "y is not the whole sequence (S, B, D), the ranks' shards in order.",
                first_wrong_is("y")),
    ),
)
