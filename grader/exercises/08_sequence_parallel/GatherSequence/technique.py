"""How GatherSequence must be done, and how it can fail."""

from grader.exercises.technique.sequences import first_wrong_is, gathers_and_reductions, whole_bytes
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited

PARTS = ("y", "dx")

TECHNIQUE = Technique(
    demands=(
        only_calls("all_gather", "reduce_scatter", hint=(
            "An all-gather forward, a reduce-scatter backward, nothing else: an all-reduce moves twice the bytes and leaves "
            "every rank gradients of positions that are not its own.")),
        bytes_sent(lambda look, rank: gathers_and_reductions(look, rank, whole_bytes(look, rank)),
                   "2(n−1)/n of the whole tensor's bytes",
                   "Right, but more was sent than one all-gather of x and one reduce-scatter of its gradient."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and keep it in ctx for the "
                      "backward pass."),
        unwaited(),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: dx and None.",
               "too few gradients"),
    ),
    fallbacks=(
        Symptom("gradient of another shape", "y is right, dx is not: it has the shape of x, one piece of the sequence.",
                first_wrong_is(PARTS, "dx")),
        Symptom("wrong result", "y is not the whole sequence (n·s, B, D), the ranks' pieces in order.",
                first_wrong_is(PARTS, "y")),
    ),
)
