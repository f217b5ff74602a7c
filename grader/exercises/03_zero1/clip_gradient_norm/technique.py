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

DIGITS_LOST = 0.01


def _by_zero(look: Look) -> bool:
    """A division by a norm of zero, of numbers or of tensors."""
    nan = wrong_ranks(lambda look, r, found, _: bool(found["gradient"].isnan().any()))
    return nan(look) or (look.evidence.ending == RAISED and "ZeroDivisionError" in look.evidence.said)


def _in_16_bits(look: Look) -> bool:
    """Every rank has numbers that are not finite where they have 16 bits, or a norm that lost digits."""

    def lost(look: Look, rank: int, found: Any, right: Any) -> bool:
        finite = math.isfinite(found["norm"]) and bool(found["gradient"].isfinite().all())
        return not finite or (not same(found["norm"], right["norm"]) and same(found["norm"], right["norm"], DIGITS_LOST))

    return look.case.inputs[0]["gradient_C"].dtype == torch.float16 and every_rank(lost)(look)


def _overflowed(look: Look, rank: int, found: Any, right: Any) -> bool:
    return same(found["norm"], right["norm"], DIGITS_LOST) and bool(found["gradient"].isinf().any())


TECHNIQUE = by_collectives(
    needs(lambda look, r: [("all_reduce", A_NUMBER_BYTES)]),
    only_calls("all_reduce"),
    bytes_sent(lambda look, r: bytes_sent_per_rank("all_reduce", 8, look.case.group_size(r)), "one element"),
    symptoms=(
        Symptom("not a number", _by_zero),
        Symptom("multiplied first", wrong_ranks(_overflowed)),
        Symptom("16 bits", _in_16_bits),
        deadlocked("", "not all take part"),
        raised("numel() == 0", "not all take part"),
        raised("narrowing", "float64 refused"),
    ),
)
