"""How ParallelMLP must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.exercises.technique.linears import layer_fallbacks
from grader.exercises.technique.splitting import (
    VIEWED,
    calls_are,
    linear_flops,
    other_dtype,
    part_missing,
    share_only,
    sizes_differ,
    sums_needed,
    work_divided,
)
from grader.judging.demands import only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, unwaited

TECHNIQUE = Technique(
    demands=(
        sums_needed(lambda look, r: look.right[r]["y"].nbytes + tensor_bytes(look, r)),
        only_calls("all_reduce", hint=(
            "Nothing is gathered between the two layers: the activation works on each number alone, so each rank's part of "
            "the inner elements goes straight into its part of down.")),
        calls_are(FORWARD, {"all_reduce": 1}, "The result is right, but forward needs one all-reduce only, g's at the end."),
        calls_are(BACKWARD, {"all_reduce": 1},
                  "The result is right, but backward needs one all-reduce only: let up and gate share one f."),
        *share_only(),
        work_divided(linear_flops("up", "down", "gate")),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: give group to every part."),
        IN_GROUPS_ONLY,
        unwaited(),
        other_dtype(),
        part_missing("A part is not there: they are called up, down and gate, each with weight and bias; gate is None where "
                     "there is none."),
        VIEWED,
        sizes_differ("The sizes do not fit: up and gate keep rows (column parallel), down keeps columns (row parallel), and "
                     "nothing between them is cut or gathered.", "shapes"),
    ),
    fallbacks=layer_fallbacks(
        "Inner features",
        y="y is wrong: down(GELU(up(x))), or with a gate down(SiLU(gate(x))·up(x)), with down's bias once. Compare the "
          "inner elements of one rank with those of a whole MLP.",
        dx="y is right, dx is not: what comes back through up and gate together is summed over ranks once, by f.",
        gradients="y and dx are right, a parameter's gradient is not: behind f and before g nothing is summed over ranks.",
        missing="A parameter is not there, or has no gradient: the parts are called up, down and gate, split layers with "
                "weight and bias."),
)
