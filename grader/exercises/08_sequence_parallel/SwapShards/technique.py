"""How SwapShards must be done, and how it can fail."""

from grader.exercises.technique.sequences import first_wrong_is, function_symptoms
from grader.judging.demands import bytes_sent, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import needs
from grader.judging.symptoms import raised
from utils.costs.formulas import bytes_sent_per_rank


def _both_ways(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        swaps = len(look.evidence.trace.of(rank, "all_to_all"))
        if look.case.group_size(rank) > 1 and swaps != 2:
            return False, f"rank {rank} swapped {swaps} time{'s' * (swaps != 1)}, wanted 2"
    return True, ""


TECHNIQUE = Technique(
    demands=(
        needs(lambda look, r: [("all_to_all", 2 * tensor_bytes(look, r))]),
        only_calls("all_to_all"),
        Demand("not one swap each way", "one all-to-all forward, one backward", _both_ways),
        bytes_sent(lambda look, rank: 2 * bytes_sent_per_rank("all_to_all", tensor_bytes(look, rank),
                                                              look.case.group_size(rank)), "(n−1)/n of x each way"),
        results_waited(),
    ),
    symptoms=(raised("invalid gradient at index 0", "wrong dx"), *function_symptoms()),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("dimensions fixed", lambda look: (look.case.inputs[0]["cut"], look.case.inputs[0]["join"]) != (1, 2),
                alone=True),
        Symptom("wrong output", first_wrong_is("y")),
        Symptom("wrong dx", first_wrong_is("dx")),
        raised("size", "pieces do not fit"),
        raised("split", "pieces do not fit"),
    ),
)
