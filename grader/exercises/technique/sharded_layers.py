"""What the exercises on one sharded layer look at: its sizes, what it holds at rest, and when its collectives run."""

from typing import Any

from grader.calling.sharding import FREED_BYTES, dtype_of
from grader.exercises.technique.sharding import held_at_most, spans_of
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised, wrong_ranks

SLACK_BYTES = 256


def shard_length(look: Look, rank: int) -> int:
    """Elements of a shard."""
    return -(-sum(p.numel() for p in look.case.inputs[rank]["parameters"]) // look.case.group_size(rank))


def row_bytes(look: Look, rank: int) -> int:
    """Of the flat buffer, in the compute dtype."""
    dtype = dtype_of(look.case.inputs[rank]["compute_dtype"] or "float64")
    return shard_length(look, rank) * look.case.group_size(rank) * dtype.itemsize


def nothing_whole(phases: list[str], call: str) -> Demand:
    """In these phases a rank holds two shards at most."""
    return held_at_most("not freed", phases,
                        lambda look, rank: max(2 * 8 * shard_length(look, rank) + SLACK_BYTES, FREED_BYTES),
                        f"nothing as large as the flat buffer is left after {call}")


def returns_at_once(id: str, method: str, op: str, name: str) -> Demand:
    """`method` has begun an `op` and not waited for it, when its spans of this name begin.

    What is in flight then is no less than a call of this kind ever was: an empty one beside it moves nothing.
    """

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            for between in spans_of(look, rank, name) if look.case.group_size(rank) > 1 else ():
                before = [call for call in look.evidence.trace.of(rank, op) if call.start_s <= between.start_s]
                if not before:
                    return False, f"rank {rank}: no {op} begun by {method}()"
                in_flight = [call for call in before if call.is_async and (
                    call.wait_start_s is None or call.wait_start_s >= between.end_s)]
                if not in_flight or sum(c.bytes_given for c in in_flight) < max(c.bytes_given for c in before):
                    return False, f"rank {rank}: {method}() waited for its {op}"
        return True, ""

    return Demand(id, f"{method}() only starts", judge)


def shard_cast() -> Symptom:
    """The slices are not in the parameters' own dtype."""

    def cast(look: Look, rank: int, found: dict[str, Any], right: dict[str, Any]) -> bool:
        pairs = [(a, b) for a, b in zip(found["pieces"], right["pieces"], strict=False) if a is not None and b is not None]
        return not pairs or any(a.dtype != b.dtype for a, b in pairs)

    return Symptom("shard cast", wrong_ranks(cast))


def not_at_rest() -> Symptom:
    """A parameter has another shape than its slice, where the layer should be at rest."""
    return raised("not at rest", "not at rest")


def each_round(rounds: int, *parts: str) -> tuple[str, ...]:
    """The names of these parts of a result, in every round."""
    return tuple(f"{part}, round {number}" for number in range(rounds) for part in parts)
