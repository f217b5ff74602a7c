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


_SIZE = ("The parts do not fit: cut x into n equal parts along `cut`, send each one contiguous, and join what arrives "
         "along `join`.")

TECHNIQUE = Technique(
    demands=(
        needs(lambda look, r: [("all_to_all", 2 * tensor_bytes(look, r))]),
        only_calls("all_to_all", hint="One all-to-all is enough: each rank gets from each other one part, and no rank ever "
                                      "holds the whole tensor."),
        Demand("not one swap each way", "one all-to-all forward, one backward", "The result is right, but each way takes "
               "one all-to-all.", _both_ways),
        bytes_sent(lambda look, rank: 2 * bytes_sent_per_rank("all_to_all", tensor_bytes(look, rank),
                                                              look.case.group_size(rank)),
                   "(n−1)/n of x each way", "Right, but more was sent than (n−1)/n of x each way."),
        results_waited(),
    ),
    symptoms=(
        raised("invalid gradient at index 0", "dx has not the shape of x: going back, what was joined is cut and what was "
               "cut is joined, so backward swaps with `cut` and `join` exchanged.", "conjugate of another shape"),
        *function_symptoms("dx, None, None, None", ignored=(
            "The ranks of other groups are touched: pass group=group, and ask dist.get_world_size(group)."))),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("dimensions fixed", "Only where cut and join are others than 1 and 2 is it wrong: take the dimensions "
                "that are given, there and back.",
                lambda look: (look.case.inputs[0]["cut"], look.case.inputs[0]["join"]) != (1, 2), alone=True),
        Symptom("wrong output", "y is wrong: from rank s comes part r of its x, and the n parts are joined "
                                "along `join` in the order of ranks.", first_wrong_is("y")),
        Symptom("wrong dx", "y is right, dx is not: swap dy with cut and join exchanged.", first_wrong_is("dx")),
        raised("size", _SIZE, "pieces do not fit"),
        raised("split", _SIZE, "pieces do not split"),
    ),
)
