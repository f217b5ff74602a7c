"""How GatheredLinear must be done, and how it can fail."""

from grader.calling.splitting import BACKWARD, FORWARD
from grader.exercises.technique.splitting import all_reduced, calls_are, first_wrong, other_dtype, sent_at_most
from grader.judging.demands import only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, raised, too_few_gradients
from utils.costs.formulas import bytes_sent_per_rank


def _gathered(look: Look, rank: int) -> float:
    """The bytes of y, all-gathered."""
    return bytes_sent_per_rank("all_gather", look.right[rank]["y"].nbytes, look.case.group_size(rank))


def _in_another_order(look: Look) -> bool:
    """Every y has the right numbers, some of them at another place."""
    ys = [(found["y"], right["y"]) for _, found, right in look.pairs()]
    return any(not look.same(y, right) for y, right in ys) and all(
        look.same(y.sort().values, right.sort().values) for y, right in ys)


TECHNIQUE = Technique(
    demands=(
        needs(lambda look, r: [("all_gather", 2 * look.right[r]["y"].nbytes), ("all_reduce", tensor_bytes(look, r))]),
        only_calls("all_gather", "all_reduce"),
        sent_at_most(FORWARD, _gathered, "forward sends parts of y, no weights", "weights gathered"),
        calls_are(FORWARD, {"all_gather": 1}),
        calls_are(BACKWARD, {"all_reduce": 1}),
        sent_at_most(BACKWARD, all_reduced(tensor_bytes), "backward sends dx once", "too many bytes"),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        IN_GROUPS_ONLY,
        other_dtype(),
        raised("shape", "shapes"),
        too_few_gradients(),
    ),
    fallbacks=(
        Symptom("wrong order", _in_another_order),
        Symptom("wrong output", first_wrong("y")),
        Symptom("wrong dx", first_wrong("dx")),
        Symptom("wrong dW", first_wrong("dW")),
    ),
)
