"""How ShardedLayer must be done, and how it can fail."""

from collections.abc import Callable
from typing import Any

from grader.calling.sharding import BETWEEN, FREED_BYTES, GIVEN_UP, REDUCING, ROUNDS, dtype_of
from grader.calling.weighing import END
from grader.exercises.technique.sharding import (
    by_collectives,
    first_wrong_is,
    gathered_again,
    gathered_and_reduced,
    gathers_and_reductions,
    held_at_most,
    spans_of,
)
from grader.exercises.technique.weights import weighs_at_most
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised, wrong_ranks

SLACK_BYTES = 256
NOT_AT_REST = ("After free() and after reduce() the layer is at rest: every p.data must be its piece again, as before the "
               "gather.")


def _length(look: Look, rank: int) -> int:
    """Numbers of a shard."""
    return -(-sum(p.numel() for p in look.case.inputs[rank]["parameters"]) // look.case.group_size(rank))


def _row_bytes(look: Look, rank: int) -> int:
    dtype = dtype_of(look.case.inputs[rank]["compute_dtype"] or "float64")
    return _length(look, rank) * look.case.group_size(rank) * dtype.itemsize


def _sent(look: Look, rank: int) -> float:
    """Each round, a whole row is gathered twice and one is reduced, all in the compute dtype; one gather is given up."""
    return gathers_and_reductions(look, rank, _row_bytes(look, rank), gathers=2 * ROUNDS + 1, reductions=ROUNDS)


def _states(look: Look, rank: int) -> float:
    """What the call keeps: the whole parameters at the start and of each round; pieces, also of each round; and the rows of
    which gradients are pieces."""
    whole = sum(p.nbytes for p in look.case.inputs[rank]["parameters"])
    return whole * (1 + ROUNDS + (4 + ROUNDS) / look.case.group_size(rank))


def _own_at_most(look: Look, rank: int) -> int:
    return max(2 * 8 * _length(look, rank) + SLACK_BYTES, FREED_BYTES)


def _returns_at_once(method: str, op: str, name: str) -> Callable[[Look], tuple[bool, str]]:
    """Whether `method` has begun an `op` and not waited for it, when its spans of this name begin.

    What is under way then is no less than a call of this kind ever was: an empty one beside it moves nothing.
    """

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            for between in spans_of(look, rank, name) if look.case.group_size(rank) > 1 else ():
                before = [call for call in look.evidence.trace.of(rank, op) if call.start_s <= between.start_s]
                if not before:
                    return False, f"rank {rank}: no {op} begun by {method}()"
                under_way = [call for call in before if call.is_async and (
                    call.wait_start_s is None or call.wait_start_s >= between.end_s)]
                if not under_way or sum(c.bytes_given for c in under_way) < max(c.bytes_given for c in before):
                    return False, f"rank {rank}: {method}() waited for its {op}"
        return True, ""

    return judge


def _ended(look: Look) -> tuple[bool, str]:
    """Whether an all-gather that was begun and not needed after all had been waited for when free() returned."""
    for rank in look.working:
        for given_up in spans_of(look, rank, GIVEN_UP):
            begun = [call for call in look.evidence.trace.of(rank, "all_gather") if call.start_s <= given_up.start_s]
            if any(call.wait_start_s is None or call.wait_start_s > given_up.start_s for call in begun):
                return False, f"rank {rank}: free() returned while an all-gather was under way"
    return True, ""


def _pieces_cast(look: Look, rank: int, found: dict[str, Any], right: dict[str, Any]) -> bool:
    pairs = [(a, b) for a, b in zip(found["pieces"], right["pieces"], strict=False) if a is not None and b is not None]
    return not pairs or any(a.dtype != b.dtype for a, b in pairs)


NOT_ENDED = ("free() comes after start_gather() alone, and the gather goes on: its row stays, and the next gather() finds "
             "the numbers from before the optimizer's step. free() must wait for it first, and then give the row back.")

TECHNIQUE = by_collectives(
    gathered_and_reduced(lambda look, r: ROUNDS * _row_bytes(look, r)),
    only_calls("all_gather", "reduce_scatter", hint=(
        "All-gather the parameters, reduce-scatter the gradients: those two are all the communication.")),
    held_at_most("not freed", ["at rest", "freed"], _own_at_most, "at rest, and after reduce(), nothing whole is left",
                 "The result is right, but the whole row is still there after free() or reduce(): resize its storage to 0 "
                 "(untyped_storage().resize_(0)), and keep no gradient of whole size."),
    gathered_again(lambda look, r: 2 * ROUNDS * _row_bytes(look, r) / look.case.group_size(r), (
        "The result is right, but a gather() after free() gathered nothing, so the whole row was kept somewhere: free() "
        "leaves the pieces only, and every gather() asks all ranks for theirs.")),
    *weighs_at_most({END: _states}),
    Demand("gather blocks", "start_gather() only starts",
           "start_gather() must return while the all-gather runs: async_op=True, keep the Work, wait in gather().",
           _returns_at_once("start_gather", "all_gather", BETWEEN)),
    Demand("reduce blocks", "reduce() only starts",
           "reduce() must return while the reduce-scatter runs: async_op=True, keep the Work and its tensors, wait in "
           "finish().", _returns_at_once("reduce", "reduce_scatter", REDUCING)),
    Demand("gather not ended", "free() ends a gather that was only started", NOT_ENDED, _ended),
    bytes_sent(_sent, "(n−1)/n of the row for each all-gather and reduce-scatter, in the compute dtype",
               "Right, but too much was sent: one all-gather a gather() and one reduce-scatter a reduce(), both in the "
               "compute dtype (cast the shard before it is sent, not after)."),
    symptoms=(
        raised("without gradients", "reduce() of a layer in which no parameter has a gradient sends nothing, and yet must "
               "free the layer: afterwards it is at rest, like any other.", "unused"),
        raised("not at rest", NOT_AT_REST, "not at rest"),
        raised("start_gather() changed", "start_gather() leaves p.grad as it is, at rest: gather() puts it aside, or what "
               "happens to it in between (zero_grad) is lost.", "aside too early"),
        raised("free() at rest changed", "free() does nothing at rest: it gave back gradients from before, though "
               "zero_grad() had set them to None. Forget what was put aside once it is back.", "given back twice"),
        raised("assigned grad", "p.grad must have the size of p.data: set p.grad to None before p.data changes, and the "
               "gradient of the new size after it.", "gradient before data"),
        raised("storage of size 0", "A view that autograd kept has no memory in backward: gather() must fill the same row "
               "again that free() emptied, not a new one.", "another row"),
        raised("grad_dtype", "p.grad must have the dtype of p.data: the mean that was reduced in compute_dtype is converted "
               "before it is added.", "gradient dtype"),
        Symptom("gather not ended", NOT_ENDED, lambda look: not _ended(look)[0]),
        raised("NoneType", "A parameter that took no part has p.grad None: leave its place in the row zero.", "no gradient"),
    ),
    fallbacks=(
        Symptom("shard cast", "The pieces are not in the parameters' own dtype: the shard, which the optimizer updates, "
                              "keeps it; only the copy that is gathered is cast to compute_dtype.",
                wrong_ranks(_pieces_cast)),
        Symptom("wrong pieces", "Before anything is gathered every p.data must be this rank's piece of that parameter: "
                                "where the shard and the parameter's place in the flat row overlap, perhaps nothing.",
                first_wrong_is("pieces")),
        Symptom("wrong whole", "gather() must give every p.data all its numbers, in its shape: cut the gathered row in the "
                               "order in which flat_shard joined the parameters.",
                first_wrong_is("whole, round 0", "whole, round 1")),
        Symptom("gradient in the way", "While the parameters are whole, p.grad must be None: put the gradient shards aside, "
                                       "or backward adds a whole gradient to a piece.",
                first_wrong_is("gradients while whole, round 0", "gradients while whole, round 1")),
        Symptom("not at rest", NOT_AT_REST, first_wrong_is("pieces, round 0", "pieces, round 1")),
        Symptom("wrong gradients", "The pieces of the gradient are not those of the mean over ranks: lay each gradient "
                                   "where its parameter lies in the flat row, zeros where there is none.",
                first_wrong_is(*(f"gradients{of}, round {number}" for number in range(ROUNDS) for of in ("", " there")))),
    ),
)
