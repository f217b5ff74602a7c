"""How clip_gradient_norm must be done, and how it can fail."""

import torch

from grader.evidence.evidence import RAISED
from grader.exercises.technique.sharding import by_collectives
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import every_rank, wrong_ranks


def _by_zero(look: Look) -> bool:
    """A division by a norm of zero, of numbers or of tensors."""
    nan = wrong_ranks(lambda look, r, found, _: bool(found["gradient"].isnan().any()))
    return nan(look) or (look.evidence.ending == RAISED and "ZeroDivisionError" in look.evidence.error)


def _in_16_bits(look: Look) -> bool:
    """Every rank is wrong, or has it infinite, where numbers have 16 bits."""
    return look.case.inputs[0]["gradient_C"].dtype == torch.float16 and every_rank(
        lambda look, r, found, right: not same(found, right))(look)


TECHNIQUE = by_collectives(
    only_calls("all_reduce", hint="One all-reduce of one number is all the communication that this exercise needs."),
    bytes_sent(lambda look, r: 2 * 8 * look.case.group_size(r), "one number",
               "Right, but more than one number travels: square and sum first, then all-reduce the sum."),
    group_hint="The norm counts ranks that are not in the group: pass group=group.",
    symptoms=(
        Symptom("not a number", "Where all gradients are zero the factor is 0/0: then leave them alone.", _by_zero),
        Symptom("16 bits", "In 16 bits a square overflows (300² is infinite in float16) or loses its digits: turn the "
                           "gradient, or its norm, into float32 before you square and sum.", _in_16_bits),
    ),
)
