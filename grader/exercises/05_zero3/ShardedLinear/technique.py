"""How ShardedLinear must be done, and how it can fail."""

from grader.calling.sharding import FORWARD
from grader.calling.weighing import END
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.sharding import (
    by_collectives,
    first_wrong_is,
    gathered_and_reduced,
    gathers_and_reductions,
    held_at_most,
)
from grader.exercises.technique.weights import weighs_at_most
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised


def _whole_bytes(look: Look, rank: int) -> int:
    """All layers' weights, padded."""
    return sum(shard.nbytes for shard in look.case.inputs[rank]["shards"]) * look.case.group_size(rank)


def _shards(look: Look, rank: int) -> int:
    return sum(shard.nbytes for shard in look.case.inputs[rank]["shards"])


def _kept_at_most(look: Look, rank: int) -> int:
    """After the forward pass: the rows' own numbers, and at most two weights."""
    inputs = look.case.inputs[rank]
    layers = len(inputs["shards"])
    return 4 * layers * inputs["x"].nbytes + 2 * (_whole_bytes(look, rank) // layers)


def _gathers_twice(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        gathers, wanted = look.evidence.trace.of(rank, "all_gather"), 2 * len(look.case.inputs[rank]["shards"])
        given = sum(call.bytes_given for call in gathers)
        if look.case.group_size(rank) > 1 and (len(gathers) < wanted or given < 2 * _shards(look, rank)):
            return False, f"rank {rank} gathered {len(gathers)} times, {given:,} B of its own; wanted {wanted} times"
    return True, ""


def _returned_having_gathered_once(look: Look) -> bool:
    gathers = [len(look.evidence.trace.of(rank, "all_gather")) for rank in look.working]
    return look.evidence.ending == RETURNED and all(
        count == len(look.case.inputs[rank]["shards"]) for rank, count in zip(look.working, gathers, strict=True))


GATHERED_ONCE = Demand("gathered once", "one all-gather in forward, one in backward", _gathers_twice)

TECHNIQUE = by_collectives(
    gathered_and_reduced(_whole_bytes),
    only_calls("all_gather", "reduce_scatter"),
    held_at_most("weight kept", [FORWARD], _kept_at_most, "no weight is kept between forward and backward"),
    *weighs_at_most({END: lambda look, rank: _shards(look, rank) + _kept_at_most(look, rank)}),
    GATHERED_ONCE,
    bytes_sent(lambda look, r: gathers_and_reductions(look, r, _whole_bytes(look, r), gathers=2),
               "3(n−1)/n of the weights' bytes"),
    symptoms=(
        raised("invalid tensor type", "other dtype"),
        raised("same dtype", "other dtype"),
        raised("shape", "padding"),
        raised("size", "padding"),
    ),
    fallbacks=(
        Symptom("gathered once", _returned_having_gathered_once),
        Symptom("wrong output", first_wrong_is("y")),
        Symptom("wrong dx", first_wrong_is("dx")),
        Symptom("wrong dW", first_wrong_is("dshards")),
    ),
)
