"""How GatheredLinear must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.exercises.technique.splitting import (
    TOLERANCE,
    all_reduced,
    calls_are,
    first_wrong,
    other_dtype,
    sent_at_most,
)
from grader.judging.compare import same
from grader.judging.demands import only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, raised, too_few_gradients, unwaited
from utils.costs.formulas import bytes_sent_per_rank


def _gathered(look: Look, rank: int) -> float:
    """The bytes of y, all-gathered."""
    return bytes_sent_per_rank("all_gather", look.right[rank]["y"].nbytes, look.case.group_size(rank))


def _in_another_order(look: Look) -> bool:
    """Every y has the right numbers, some of them at another place."""
    ys = [(found["y"], right["y"]) for _, found, right in look.pairs()]
    return any(not same(y, right, TOLERANCE) for y, right in ys) and all(
        same(y.sort().values, right.sort().values, TOLERANCE) for y, right in ys)


_SHAPES = ("The sizes do not fit. Of dy (B, O) this rank needs its own P columns: dx = dy_p W_p, and dW_p = dy_pᵀ x has the "
           "shape of w_PI.")

TECHNIQUE = Technique(
    demands=(
        needs(lambda look, r: [("all_gather", 2 * look.right[r]["y"].nbytes), ("all_reduce", tensor_bytes(look, r))]),
        only_calls("all_gather", "all_reduce", hint=(
            "All-gather the outputs in forward, all-reduce dx in backward: those two are all the communication.")),
        sent_at_most(FORWARD, _gathered, "forward sends parts of y, no weights",
                     "The result is right, but forward sends more than the parts of y: were whole weights gathered? A rank "
                     "must never have more of W than its own rows.", "weights gathered"),
        calls_are(FORWARD, {"all_gather": 1}, "One all-gather in forward is enough."),
        calls_are(BACKWARD, {"all_reduce": 1}, "One all-reduce in backward is enough: only dx is a sum over ranks."),
        sent_at_most(BACKWARD, all_reduced(tensor_bytes), "backward sends dx once",  # dx has as many bytes as x
                     "Backward sends more than one all-reduce of dx.", "too many bytes"),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call."),
        IN_GROUPS_ONLY,
        unwaited(),
        other_dtype(),
        raised("invalid gradient", _SHAPES, "shapes"),
        raised("shape", _SHAPES, "shapes"),
        too_few_gradients("dx, dW, None"),
    ),
    fallbacks=(
        Symptom("wrong order", "The columns of y are not in the ranks' order: rank 0's come first on every rank.",
                _in_another_order),
        Symptom("wrong output", "y is wrong: each rank's part is x W_pᵀ.", first_wrong("y")),
        Symptom("wrong dx", "y is right, dx is not: the sum over ranks of dy_p W_p.", first_wrong("dx")),
        Symptom("wrong dW", "y and dx are right, dW is not: dy_pᵀ x, with this rank's columns of dy.",
                first_wrong("dW")),
    ),
)
