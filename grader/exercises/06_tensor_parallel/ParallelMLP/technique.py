"""How ParallelMLP must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.exercises.technique.linears import layer_fallbacks
from grader.exercises.technique.splitting import (
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
from grader.judging.symptoms import group_ignored

TECHNIQUE = Technique(
    demands=(
        sums_needed(lambda look, r: look.right[r]["y"].nbytes + tensor_bytes(look, r)),
        only_calls("all_reduce"),
        calls_are(FORWARD, {"all_reduce": 1}),
        calls_are(BACKWARD, {"all_reduce": 1}),
        *share_only(),
        work_divided(linear_flops("up", "down", "gate")),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        IN_GROUPS_ONLY,
        other_dtype(),
        part_missing(),
        sizes_differ("shapes"),
    ),
    fallbacks=layer_fallbacks(),
)
