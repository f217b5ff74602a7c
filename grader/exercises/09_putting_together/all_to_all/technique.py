"""How all_to_all must be done, and how it can fail."""

import torch

from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.technique import collectives
from grader.judging.demands import bytes_sent
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import wrong_ranks


def _only_own_row_is_wrong(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    return look.case.group_size(rank) > 1 and collectives.wrong_rows(found, expected) == [look.case.group_rank(rank)]


def _partners_by_xor(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    n, r = look.case.group_size(rank), look.case.group_rank(rank)
    return collectives.wrong_rows(found, expected) == [s for s in range(n) if r ^ s >= n]


def _all_have_begun_both(look: Look) -> bool:
    """Ranks stand still, and yet each has begun as many receives as sends, and dropped none: these have other partners."""
    if "dropped message" in look.evidence.error_kind:
        return False
    begun = [[len(look.evidence.trace.of(rank, op)) for op in ("send", "recv")] for rank in look.working]
    return look.evidence.ending == DEADLOCKED and all(sends == receives > 0 for sends, receives in begun)


def _too_few_messages(look: Look) -> bool:
    missing = [look.case.group_size(rank) - 1 - len(look.evidence.trace.of(rank, "send")) for rank in look.working]
    return look.evidence.ending == RETURNED and min(missing) >= 0 < max(missing)


TECHNIQUE = collectives.from_messages(
    collectives.needed("all_to_all"),
    bytes_sent(collectives.formula_bytes("all_to_all"), "at most (n−1)/n·M bytes", id="more than the rows"),
    symptoms=(
        collectives.message_to_itself(),
        Symptom("receive from the wrong rank", _all_have_begun_both),
        collectives.EVERYONE_WAITS,
        collectives.INPUT_OVERWRITTEN,
    ),
    fallbacks=(
        collectives.powers_of_two_only(),
        Symptom("powers of two only", wrong_ranks(_partners_by_xor)),
        Symptom("a round is missing", _too_few_messages),
        Symptom("own row missing", wrong_ranks(_only_own_row_is_wrong)),
        Symptom("order of arrival", wrong_ranks(collectives.in_other_order)),
        collectives.out_of_step(),
    ),
)
