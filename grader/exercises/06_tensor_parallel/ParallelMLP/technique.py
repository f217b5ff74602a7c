"""How ParallelMLP must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.exercises.technique.linears import PARTS, not_divided
from grader.exercises.technique.splitting import (
    calls_are,
    first_wrong,
    no_gradient,
    only_all_reduce,
    share_only,
    sizes_taken,
)
from grader.judging.demands import results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited


def _share(look: Look, rank: int) -> int:
    """Numbers in this rank's parts; down's bias is whole."""
    inputs, n = look.case.inputs[rank], look.case.group_size(rank)
    counts = {(name, kind): one.numel() for name in ("up", "gate", "down") if inputs[name]
              for kind, one in inputs[name].items() if one is not None}
    return sum(count if key == ("down", "bias") else count // n for key, count in counts.items())


TECHNIQUE = Technique(
    demands=(
        only_all_reduce("Nothing is gathered between the two layers: the activation works on each number alone, so each "
                        "rank's part of the inner numbers goes straight into its part of down."),
        calls_are(FORWARD, {"all_reduce": 1}, "The result is right, but forward needs one all-reduce only, g's at the end.",
                  "forward calls"),
        calls_are(BACKWARD, {"all_reduce": 1}, "The result is right, but backward needs one all-reduce only: let up and "
                                               "gate share one f.", "backward calls"),
        *share_only(_share, lambda look: look.case.inputs[0]["x"].itemsize),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: give group to every part."),
        unwaited(),
        raised("shape", "The sizes do not fit: up and gate keep rows (column parallel), down keeps columns (row parallel).",
               "shapes"),
    ),
    fallbacks=(
        no_gradient("A parameter is not there, or has no gradient: the parts are called up, down and gate, split layers "
                    "with weight and bias."),
        Symptom("wrong y", "y is wrong.", first_wrong("y", PARTS)),
        Symptom("wrong dx", "y is right, dx is not.", first_wrong("dx", PARTS)),
        Symptom("wrong gradients", "y and dx are right, a parameter's gradient is not.", first_wrong("gradients", PARTS)),
        sizes_taken("no error", not_divided("Inner features")),
    ),
)
