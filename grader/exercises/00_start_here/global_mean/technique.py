"""How global_mean must be done, and how it can fail."""

from dataclasses import replace

from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Technique
from grader.judging.needs import A_NUMBER_BYTES, needs
from grader.judging.symptoms import raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

PAIR_BYTES = 16  # a sum and a count, 8 bytes each

TECHNIQUE = Technique(
    demands=(
        replace(only_calls("all_reduce", id="not an all-reduce"), gate=False),
        bytes_sent(lambda look, r: bytes_sent_per_rank("all_reduce", PAIR_BYTES, look.case.group_size(r)),
                   "sends two numbers"),
        needs(lambda look, r: [("all_reduce" if look.case.inputs[r]["numbers"] else "recv", A_NUMBER_BYTES)]),
        results_waited(),
    ),
    symptoms=(
        unwaited(),
        raised("ZeroDivisionError", "empty share"),
        raised("NoneType", "result of all_reduce used"),
    ),
)
