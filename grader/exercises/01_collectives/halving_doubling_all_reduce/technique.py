"""How halving_doubling_all_reduce must be done, and how it can fail."""

import math

import torch

from grader.exercises.technique import collectives
from grader.judging.demands import bytes_sent, messages_at_most, not_far_more_bytes
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import deadlocked, wrong_ranks


def _one_piece_is_right(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    n = look.case.group_size(rank)
    return len(collectives.wrong_rows(found.view(n, -1), expected.view(n, -1))) == n - 1


_WHOLE = ("The sum is right, but whole tensors travel: in each step of the first half a rank sends only the half that its "
          "partner will keep, and goes on with the other one.")

TECHNIQUE = collectives.from_messages(
    collectives.needed("all_reduce"),
    not_far_more_bytes(collectives.formula_bytes("all_reduce"), _WHOLE, id="whole tensors"),
    bytes_sent(collectives.formula_bytes("all_reduce"), "at most 2(n−1)/n·M bytes", _WHOLE, id="whole tensors"),
    messages_at_most(lambda look, r: collectives.calls_made(look, r) * 2 * int(math.log2(look.case.group_size(r))),
                     "at most 2·log2 n messages",
                     "The sum is right in as few bytes as can be, but in too many messages: exchange with the ranks n/2, "
                     "n/4, …, 1 away, halving what you send, then back the same way (a ring takes 2(n−1) messages)."),
    symptoms=(
        collectives.EVERYONE_WAITS,
        collectives.message_to_itself("A rank sends to itself: the partner at distance d is r ^ d, and d is never 0."),
    ),
    fallbacks=(
        deadlocked("receive from the wrong rank", "A rank's partner has another partner: at distance d the partner of r is "
                   "r ^ d, for both of them.", "wrong partner"),
        Symptom("no doubling", "One piece of each rank holds the sum, the rest does not: the halving leaves rank r one "
                               "piece of M/n elements; now double back, exchanging finished pieces.",
                wrong_ranks(_one_piece_is_right)),
        Symptom("pieces out of place", "All sums are there, but not in their places: keep which half went away in each "
                                       "step, and receive into that place on the way back.",
                wrong_ranks(collectives.in_other_order)),
    ),
)
