"""How PrefetchedLayer must be done, and how it can fail."""

from grader.calling.sharding import BETWEEN, FREED, GIVEN_UP, ROUNDS
from grader.exercises.technique.sharded_layers import each_round, not_at_rest, nothing_whole, returns_at_once, row_bytes
from grader.exercises.technique.sharding import by_collectives, first_wrong_is, gathers_and_reductions, spans_of
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import raised

NOT_ENDED = ("free() comes after start_gather() alone, and the gather goes on: the next gather() may find the elements from "
             "before the optimizer's step. free() must wait for it first, and then give the memory back.")
BUILDS_ON = " If you left {} to GatheredLayer, look there: its check must pass first."


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
    only_calls("all_gather", hint="One all-gather for each gather is all the communication."),
    returns_at_once("gather blocks", "start_gather", "all_gather", BETWEEN, (
        "start_gather() must return while the all-gather is in flight: async_op=True, keep the Work, wait in gather().")),
    Demand("gather not ended", "free() ends a gather that was only started", NOT_ENDED, _ended),
    nothing_whole([FREED], "free(), where start_gather() came before and no gather()",
                  "; if the layer isn't whole, GatheredLayer's free() does nothing"),
    bytes_sent(lambda look, r: gathers_and_reductions(look, r, row_bytes(look, r), gathers=2 * ROUNDS + 1, reductions=0),
               "(n−1)/n of the flat buffer for each gather, in the compute dtype",
               "Right, but too much was sent: start no all-gather if one is in flight or the layer is gathered already, and "
               "let gather() only wait for the one that start_gather() has started."),
    symptoms=(
        not_at_rest("start_gather() leaves every p.data as it is, and free() puts every slice back." + BUILDS_ON.format(
            "free()")),
        raised("start_gather() changed", "start_gather() leaves p.grad as it is: gather() puts it aside, or a zero_grad() "
               "in between is undone.", "aside too early"),
        raised("storage of size 0", "The flat buffer, or a view of it, has no memory: start_gather() must enlarge the "
               "storage of the same flat buffer before it starts the all-gather.", "no memory"),
        Symptom("gather not ended", NOT_ENDED, lambda look: not _ended(look)[0]),
    ),
    fallbacks=(
        Symptom("base not right", "The slices at rest are wrong before anything is gathered. PrefetchedLayer takes them "
                                  "from GatheredLayer, whose check must pass first.", first_wrong_is("pieces")),
        Symptom("wrong whole", "After gather(), p.data hasn't all elements." + BUILDS_ON.format("this"),
                first_wrong_is(*each_round(ROUNDS, "whole", "gathered again"))),
    ),
)
