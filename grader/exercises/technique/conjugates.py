"""What f and g demand, and how they fail."""

from grader.calling.splitting import FORWARD
from grader.exercises.technique.splitting import all_reduced, calls_are, other_dtype, sent_at_most
from grader.judging.demands import inputs_kept, only_calls, results_waited, tensor_bytes, unchanged_under_way
from grader.judging.exercise import Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, raised, too_few_gradients


def one_all_reduce(phase: str, silent: str) -> Technique:
    """One all-reduce of x in `phase`, nothing in the `silent` direction, inputs and gradients left as they were.

    Two calls forward, one backward, as call_conjugate makes them.
    """
    times = 2 if phase == FORWARD else 1
    return Technique(
        call="splitting:call_conjugate",
        demands=(
            only_calls("all_reduce"),
            calls_are(silent, {}, f"communicates in {silent}"),
            calls_are(phase, {"all_reduce": 1}, "all-reduced again"),
            sent_at_most(phase, all_reduced(tensor_bytes), "one all-reduce of the tensor's bytes", "too many bytes"),
            inputs_kept(),
            needs(lambda look, rank: [("all_reduce", times * tensor_bytes(look, rank))]),
            results_waited(),
            unchanged_under_way(),
        ),
        symptoms=(
            group_ignored(),
            IN_GROUPS_ONLY,
            raised("has no attribute 'group'", "group not kept"),
            raised("leaf Variable that requires grad", "input changed"),
            too_few_gradients(),
            other_dtype(),
        ),
    )
