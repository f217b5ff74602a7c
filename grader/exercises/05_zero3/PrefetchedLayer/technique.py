"""How PrefetchedLayer must be done, and how it can fail."""

from grader.calling.sharding import BETWEEN, FREED, GIVEN_UP, ROUNDS
from grader.exercises.technique.sharded_layers import each_round, not_at_rest, nothing_whole, returns_at_once, row_bytes
from grader.exercises.technique.sharding import by_collectives, first_wrong_is, gathers_and_reductions, spans_of
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import raised


def _ended(look: Look) -> tuple[bool, str]:
    """Whether an all-gather that was begun and not needed after all had been waited for when free() returned."""
    for rank in look.working:
        for given_up in spans_of(look, rank, GIVEN_UP):
            begun = [call for call in look.evidence.trace.of(rank, "all_gather") if call.start_s <= given_up.start_s]
            if any(call.wait_start_s is None or call.wait_start_s > given_up.start_s for call in begun):
                return False, f"rank {rank}: free() returned while an all-gather was in flight"
    return True, ""


TECHNIQUE = by_collectives(
    needs(lambda look, r: [("all_gather", ROUNDS * row_bytes(look, r))]),
    only_calls("all_gather"),
    returns_at_once("gather blocks", "start_gather", "all_gather", BETWEEN),
    Demand("gather not ended", "free() ends a gather that was only started", _ended),
    nothing_whole([FREED], "free(), where start_gather() came before and no gather()"),
    bytes_sent(lambda look, r: gathers_and_reductions(look, r, row_bytes(look, r), gathers=2 * ROUNDS + 1, reductions=0),
               "(n−1)/n of the flat buffer for each gather, in the compute dtype"),
    symptoms=(
        not_at_rest(),
        raised("start_gather() changed", "aside too early"),
        raised("storage of size 0", "no memory"),
        Symptom("gather not ended", lambda look: not _ended(look)[0]),
    ),
    fallbacks=(
        Symptom("base not right", first_wrong_is("pieces")),
        Symptom("wrong whole", first_wrong_is(*each_round(ROUNDS, "whole", "gathered again"))),
    ),
)
