"""How ParallelMLP must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.exercises.technique.linears import layer_fallbacks
from grader.exercises.technique.splitting import calls_are, share_only
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Technique
from grader.judging.symptoms import group_ignored, raised, unwaited

TECHNIQUE = Technique(
    demands=(
        only_calls("all_reduce", hint=(
            "Nothing is gathered between the two layers: the activation works on each number alone, so each rank's part of "
            "the inner numbers goes straight into its part of down.")),
        calls_are(FORWARD, {"all_reduce": 1}, "The result is right, but forward needs one all-reduce only, g's at the end."),
        calls_are(BACKWARD, {"all_reduce": 1},
                  "The result is right, but backward needs one all-reduce only: let up and gate share one f."),
        *share_only(),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: give group to every part."),
        unwaited(),
        raised("shape", "The sizes do not fit: up and gate keep rows (column parallel), down keeps columns (row parallel).",
               "shapes"),
    ),
    fallbacks=layer_fallbacks(
        "Inner features",
        y="y is wrong.",
        dx="y is right, dx is not.",
        gradients="y and dx are right, a parameter's gradient is not.",
        missing="A parameter is not there, or has no gradient: the parts are called up, down and gate, split layers with "
                "weight and bias."),
)
