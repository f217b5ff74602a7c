"""How ScatterSequence must be done, and how it can fail."""

from grader.exercises.technique.sequences import first_wrong_is, gathers_and_reductions, not_refused
from grader.judging.demands import bytes_sent, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited

PARTS = ("y", "dx")

TECHNIQUE = Technique(
    demands=(
        only_calls("reduce_scatter", "all_gather", hint=(
            "A reduce-scatter forward, an all-gather backward, nothing else: after an all-reduce each rank would have sums "
            "for all positions, and throw most of them away.")),
        bytes_sent(lambda look, rank: gathers_and_reductions(look, rank, tensor_bytes(look, rank)),
                   "2(n−1)/n of the whole tensor's bytes",
                   "Right, but more was sent than one reduce-scatter of x and one all-gather of the gradient."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and keep it in ctx for the "
                      "backward pass."),
        unwaited(),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: dx and None.",
               "too few gradients"),
        not_refused("A sequence that the ranks do not divide must raise a ValueError that names both sizes, before any "
                    "call."),
    ),
    fallbacks=(
        Symptom("gradient of another shape", "y is right, dx is not: it has the shape of x, the whole sequence.",
                first_wrong_is(PARTS, "dx")),
        Symptom("wrong result", "y is not piece r, (S/n, B, D), of the sum over ranks.", first_wrong_is(PARTS, "y")),
    ),
)
