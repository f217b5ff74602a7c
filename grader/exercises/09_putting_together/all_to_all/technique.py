"""How all_to_all must be done, and how it can fail."""

import torch

from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.technique import collectives
from grader.judging.demands import bytes_sent
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import wrong_ranks


def _only_own_row_is_wrong(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    return look.case.group_size(rank) > 1 and collectives.wrong_rows(found, expected) == [look.case.group_rank(rank)]


def _only_neighbours_right(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    n, r = look.case.group_size(rank), look.case.group_rank(rank)
    right = set(range(n)) - set(collectives.wrong_rows(found, expected))
    return n > 3 and right <= {r, (r - 1) % n, (r + 1) % n} and len(right) > 1


def _partners_by_xor(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    n, r = look.case.group_size(rank), look.case.group_rank(rank)
    return collectives.wrong_rows(found, expected) == [s for s in range(n) if r ^ s >= n]


def _all_have_begun_both(look: Look) -> bool:
    """Ranks stand still, and yet each has begun as many receives as sends: these have other partners."""
    begun = [[len(look.evidence.trace.of(rank, op)) for op in ("send", "recv")] for rank in look.working]
    return look.evidence.ending == DEADLOCKED and all(sends == receives > 0 for sends, receives in begun)


def _too_few_messages(look: Look) -> bool:
    sent = [(len(look.evidence.trace.of(rank, "send")), look.case.group_size(rank)) for rank in look.working]
    return look.evidence.ending == RETURNED and all(1 < count < n - 1 or count == 0 < n - 1 for count, n in sent)


TECHNIQUE = collectives.from_messages(
    collectives.needed("all_to_all"),
    bytes_sent(collectives.formula_bytes("all_to_all"), "at most (n−1)/n·M bytes",
               "The rows are right, but more travelled than needed: rank s needs only row s of your x_NC, C elements.",
               id="more than the rows"),
    symptoms=(
        collectives.message_to_itself(
            "A rank sends to itself, and such a message never arrives: copy row r of x_NC into row r of the result without "
            "any message."),
        Symptom("receive from the wrong rank", "A message goes to a rank that waits for one from somebody else: what you "
                "send to (r + d) % n, that rank must receive from you, so in round d receive from (r − d) % n.",
                _all_have_begun_both),
        collectives.EVERYONE_WAITS,
        collectives.INPUT_OVERWRITTEN,
    ),
    fallbacks=(
        collectives.powers_of_two_only("It stops where n is not a power of two: r ^ d is then no rank of the group. Send to "
                                       "(r + d) % n and receive from (r − d) % n."),
        Symptom("partners left out", "Where n is not a power of two, r ^ d misses some pairs (of three ranks, 1 and 2): "
                                     "send to (r + d) % n and receive from (r − d) % n.", wrong_ranks(_partners_by_xor)),
        Symptom("a round is missing", "Each rank sends fewer than n−1 messages: d runs from 1 to n−1, both included, and in "
                                      "Python range(1, n) ends with n−1.", _too_few_messages),
        Symptom("own row missing", "The rows from other ranks are right, your own is not: nobody sends it, so copy "
                                   "row r of x_NC into row r of the result.", wrong_ranks(_only_own_row_is_wrong)),
        Symptom("order of arrival", "All rows are there, but in the order of arrival: what rank s sent belongs in row s "
                                    "of the result.", wrong_ranks(collectives.in_other_order)),
        Symptom("neighbours only", "Only rows from neighbours are right: every rank sends to every other rank, also "
                                   "where there are more than two.", wrong_ranks(_only_neighbours_right)),
        collectives.out_of_step("The messages go between the right ranks, but the rows are not those: rank i is sent row i "
                                "of x_NC, and what comes from rank s becomes row s."),
    ),
)
