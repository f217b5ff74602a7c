"""What f and g demand, and how they fail."""

from grader.calling.splitting import FORWARD
from grader.exercises.technique.splitting import all_reduced, calls_are, other_dtype, sent_at_most
from grader.judging.demands import inputs_kept, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, raised, too_few_gradients, unwaited


def one_all_reduce(phase: str, silent: str) -> Technique:
    """One all-reduce of x in `phase`, nothing in the `silent` direction, inputs and gradients left as they were.

    Two calls forward, one backward, as call_conjugate makes them.
    """
    times = 2 if phase == FORWARD else 1
    return Technique(
        demands=(
            only_calls("all_reduce", hint="dist.all_reduce is all the communication that this exercise needs."),
            calls_are(silent, {}, f"The result is right, but ranks communicate in {silent} too: there it is the identity.",
                      f"communicates in {silent}"),
            calls_are(phase, {"all_reduce": 1}, f"The result is right, but one all-reduce in {phase} is enough.",
                      "all-reduced again"),
            sent_at_most(phase, all_reduced(tensor_bytes), "one all-reduce of the tensor's bytes",
                         "The result is right, but more bytes were sent than the tensor's own: reduce it in its own dtype.",
                         "too many bytes"),
            inputs_kept("The result is right, but the tensor that was handed in was changed on the way: others may still "
                        "need it. all_reduce works in place, so give it a clone."),
            needs(lambda look, rank: [("all_reduce", times * tensor_bytes(look, rank))]),
            results_waited(),
        ),
        symptoms=(
            group_ignored("The ranks of other groups are touched: pass group=group to all_reduce; keep it in ctx for "
                          "backward."),
            IN_GROUPS_ONLY,
            unwaited(),
            raised("has no attribute 'group'", "backward does not get the group: keep it in forward, ctx.group = group.",
                   "group not kept"),
            raised("leaf Variable that requires grad", "x was changed in place, and it is the caller's: all_reduce works in "
                   "place, so give it a clone.", "input changed"),
            too_few_gradients("the gradient and None"),
            other_dtype(),
        ),
    )
