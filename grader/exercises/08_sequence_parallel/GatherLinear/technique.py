"""How GatherLinear must be done, and how it can fail."""

from grader.calling.sequences import BACKWARD, FORWARD
from grader.calling.weighing import END
from grader.exercises.technique.sequences import first_wrong_is, function_symptoms, kept_at_most, whole_bytes
from grader.exercises.technique.sharding import gathered_and_reduced, gathers_and_reductions
from grader.exercises.technique.splitting import calls_in
from grader.exercises.technique.weights import weighs_at_most
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY


def _gathers_in_backward(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        gathers = [[c for c in calls_in(look, rank, phase) if c.op == "all_gather"] for phase in (FORWARD, BACKWARD)]
        if look.case.group_size(rank) > 1 and not all(gathers):
            return False, f"rank {rank} gathered {len(gathers[0])} times in forward, {len(gathers[1])} in backward"
    return True, ""


TECHNIQUE = Technique(
    demands=(
        gathered_and_reduced(whole_bytes),
        only_calls("all_gather", "reduce_scatter"),
        kept_at_most(lambda look, rank: 1.4 * look.case.inputs[rank]["x"].nbytes, "no whole x between forward and backward"),
        *weighs_at_most({END: lambda look, rank: 1.6 * look.case.inputs[rank]["x"].nbytes}),  # a copy, and room
        Demand("gathered once", "one all-gather in forward, one in backward", _gathers_in_backward),
        bytes_sent(lambda look, rank: gathers_and_reductions(look, rank, whole_bytes(look, rank), gathers=2),
                   "3(n−1)/n of x's bytes"),
        results_waited(),
    ),
    symptoms=function_symptoms(),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("wrong y", first_wrong_is("y")),
        Symptom("wrong dx", first_wrong_is("dx")),
        Symptom("wrong dW", first_wrong_is("dweight")),
        Symptom("wrong db", first_wrong_is("dbias")),
    ),
)
