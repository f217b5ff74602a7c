"""How ShardedLayer must be done, and how it can fail."""

from grader.calling.sharding import BETWEEN, FREED_BYTES, ROUNDS, dtype_of
from grader.exercises.technique.sharding import (
    by_collectives,
    first_wrong_is,
    gathers_and_reductions,
    held_at_most,
    spans_of,
)
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised

SLACK_BYTES = 256


def _length(look: Look, rank: int) -> int:
    """Numbers of a shard."""
    return -(-sum(p.numel() for p in look.case.inputs[rank]["parameters"]) // look.case.group_size(rank))


def _sent(look: Look, rank: int) -> float:
    """Each round, a whole row is gathered and one is reduced, both in the compute dtype."""
    dtype = dtype_of(look.case.inputs[rank]["compute_dtype"] or "float64")
    row_bytes = _length(look, rank) * look.case.group_size(rank) * dtype.itemsize
    return ROUNDS * gathers_and_reductions(look, rank, row_bytes)


def _own_at_most(look: Look, rank: int) -> int:
    return max(2 * 8 * _length(look, rank) + SLACK_BYTES, FREED_BYTES)


def _returns_at_once(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        for between in spans_of(look, rank, BETWEEN) if look.case.group_size(rank) > 1 else ():
            before = [call for call in look.evidence.trace.of(rank, "all_gather") if call.start_s <= between.start_s]
            if not before:
                return False, f"rank {rank}: no all-gather begun by start_gather()"
            last = before[-1]
            if not last.is_async or (last.wait_start_s is not None and last.wait_start_s < between.end_s):
                return False, f"rank {rank}: start_gather() waited for its all-gather"
    return True, ""


TECHNIQUE = by_collectives(
    only_calls("all_gather", "reduce_scatter", hint=(
        "All-gather the parameters, reduce-scatter the gradients: those two are all the communication.")),
    held_at_most("not freed", ["at rest", "freed"], _own_at_most, "at rest, and after reduce(), nothing whole stands",
                 "The result is right, but the whole row still stands after free() or reduce(): resize its storage to 0 "
                 "(untyped_storage().resize_(0)), and let no gradient of whole size live on."),
    Demand("gather blocks", "start_gather() only starts",
           "start_gather() must return while the all-gather runs: async_op=True, keep the Work, wait in gather().",
           _returns_at_once),
    bytes_sent(_sent, "(n−1)/n of the row for each all-gather and reduce-scatter, in the compute dtype",
               "Right, but too much was sent: one all-gather a gather() and one reduce-scatter a reduce(), both in the "
               "compute dtype (cast the shard before it is sent, not after)."),
    symptoms=(
        raised("assigned grad", "p.grad must have the size of p.data: set p.grad to None before p.data changes, and the "
               "gradient of the new size after it.", "gradient before data"),
        raised("NoneType", "A parameter that took no part has p.grad None: leave its place in the row zero.", "no gradient"),
    ),
    fallbacks=(
        Symptom("wrong pieces", "Before anything is gathered every p.data must be this rank's piece of that parameter: "
                                "where the shard and the parameter's place in the flat row overlap, perhaps nothing.",
                first_wrong_is("pieces")),
        Symptom("wrong whole", "gather() must give every p.data all its numbers, in its shape: cut the gathered row in the "
                               "order in which flat_shard joined the parameters.", first_wrong_is("whole")),
        Symptom("gradient in the way", "While the parameters are whole, p.grad must be None: put the gradient shards aside, "
                                       "or backward adds a whole gradient to a piece.",
                first_wrong_is("gradients while whole, round 0", "gradients while whole, round 1")),
        Symptom("wrong gradients", "The pieces of the gradient are not those of the mean over ranks: lay each gradient "
                                   "where its parameter lies in the flat row, zeros where there is none.",
                first_wrong_is("gradients, round 0", "gradients, round 1")),
    ),
)
