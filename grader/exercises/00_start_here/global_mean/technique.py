"""How global_mean must be done, and how it can fail."""

from dataclasses import replace

import torch

from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited
from grader.judging.exercise import Symptom, Technique
from grader.judging.needs import A_NUMBER_BYTES, needs
from grader.judging.symptoms import deadlocked, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

PAIR_BYTES = 16  # a sum and a count, 8 bytes each

TECHNIQUE = Technique(
    demands=(
        replace(only_calls("all_reduce", id="not an all-reduce", hint=(
            "The mean is right, but by another road: one all-reduce of [sum, count] is enough.")), gate=False),
        bytes_sent(lambda look, r: bytes_sent_per_rank("all_reduce", PAIR_BYTES, look.case.group_size(r)),
                   "sends two numbers", "The mean is right, but more than two numbers a rank travel: reduce your own "
                   "numbers to a sum and a count first."),
        needs(lambda look, r: [("all_reduce" if look.case.inputs[r]["numbers"] else "recv", A_NUMBER_BYTES)]),
        results_waited(),
    ),
    symptoms=(
        unwaited(),
        raised("ZeroDivisionError", "A rank without numbers divides by its own count, 0. It still has something true "
               "to say: sum 0, count 0. Divide after the all-reduce.", "empty share"),
        raised("NoneType", "dist.all_reduce changes the tensor that it is given and returns nothing: do not assign its "
               "result.", "result of all_reduce used"),
        deadlocked("dtype differs", "sum([]) is the whole number 0, so a rank without numbers makes a tensor of whole "
                   "numbers where the others make floats: give torch.tensor a dtype."),
        deadlocked("size differs", "All-reduce adds tensors of one shape, but the shares have different lengths: make "
                   "a sum and a count of your own numbers first."),
        deadlocked("rank", "A rank without numbers leaves before all_reduce, and the others wait for it for ever: "
                   "every member of a group must make every collective call.", "left before the call"),
    ),
    fallbacks=(
        Symptom("tensor returned", "The result is a tensor: return a plain number, tensor.item().",
                wrong_ranks(lambda _, rank, found, right: isinstance(found, torch.Tensor)
                            and same(float(found), right, 1e-5))),
    ),
)
