"""How halving_doubling_all_reduce must be done, and how it can fail."""

import math

import torch

from grader.exercises.technique import collectives
from grader.judging.demands import bytes_sent, messages_at_most, not_far_more_bytes
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import wrong_ranks


def _one_piece_is_right(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    n = look.case.group_size(rank)
    return len(collectives.wrong_rows(found.view(n, -1), expected.view(n, -1))) == n - 1


TECHNIQUE = collectives.from_messages(
    collectives.needed("all_reduce"),
    not_far_more_bytes(collectives.formula_bytes("all_reduce"), id="whole tensors"),
    bytes_sent(collectives.formula_bytes("all_reduce"), "at most 2(n−1)/n·M bytes", id="whole tensors"),
    messages_at_most(lambda look, r: collectives.calls_made(look, r) * 2 * int(math.log2(look.case.group_size(r))),
                     "at most 2·log2 n messages"),
    symptoms=(
        collectives.EVERYONE_WAITS,
    ),
    fallbacks=(
        Symptom("no doubling", wrong_ranks(_one_piece_is_right)),
        Symptom("pieces out of place", wrong_ranks(collectives.in_other_order)),
    ),
)
