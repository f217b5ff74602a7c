"""How clip_gradient_norm must be done, and how it can fail."""

import math
from typing import Any

import torch

from grader.evidence.evidence import RAISED
from grader.exercises.technique.sharding import by_collectives
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Look, Symptom
from grader.judging.needs import A_NUMBER_BYTES, needs
from grader.judging.symptoms import deadlocked, every_rank, raised, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _by_zero(look: Look) -> bool:
    """A division by a norm of zero, of numbers or of tensors."""
    nan = wrong_ranks(lambda look, r, found, _: bool(found["gradient"].isnan().any()))
    return nan(look) or (look.evidence.ending == RAISED and "ZeroDivisionError" in look.evidence.error)


def _in_16_bits(look: Look) -> bool:
    """Every rank has numbers that are not finite where they have 16 bits, or a norm that lost digits."""

    def lost(look: Look, rank: int, found: Any, right: Any) -> bool:
        finite = math.isfinite(found["norm"]) and bool(found["gradient"].isfinite().all())
        return not finite or (not same(found["norm"], right["norm"]) and same(found["norm"], right["norm"], DIGITS_LOST))

    return look.case.inputs[0]["gradient_C"].dtype == torch.float16 and every_rank(lost)(look)


def _overflowed(look: Look, rank: int, found: Any, right: Any) -> bool:
    return same(found["norm"], right["norm"], DIGITS_LOST) and bool(found["gradient"].isinf().any())


DIGITS_LOST = 0.01


TECHNIQUE = by_collectives(
    needs(lambda look, r: [("all_reduce", A_NUMBER_BYTES)]),
    only_calls("all_reduce", hint="One all-reduce of one element is all the communication that this exercise needs."),
    bytes_sent(lambda look, r: bytes_sent_per_rank("all_reduce", 8, look.case.group_size(r)), "one element",
               "Right, but more than one element travels: square and sum first, then all-reduce the sum."),
    group_hint="The norm counts ranks that are not in the group: pass group=group.",
    symptoms=(
        Symptom("not a number", "Where all gradients are zero the factor is 0/0: then leave them alone.", _by_zero),
        Symptom("multiplied first", "The norm is right, and some clipped elements are infinite: in float16 an element times "
                "max_norm overflows before it is divided by the norm. Make one factor first, max_norm / norm.",
                wrong_ranks(_overflowed)),
        Symptom("16 bits", "In 16 bits a square overflows (300² is infinite in float16) or loses its digits: turn the "
                           "gradient, or its norm, into float32 before you square and sum, and scale by the one factor "
                           "max_norm / norm.", _in_16_bits),
        Symptom("a tensor", "Returned is a tensor; wanted is a float: norm.item().", every_rank(
            lambda look, r, found, right: isinstance(found["norm"], torch.Tensor))),
        deadlocked("", "The ranks miss each other: every one calls the all-reduce, also who owns nothing (the sum of no "
                       "elements is 0) and who has nothing to clip.", "not all take part"),
        raised("narrowing", "The gradient may be float64, which vector_norm(dtype=torch.float32) refuses to shorten: "
                            "compute in float64.", "float64 refused"),
    ),
)
