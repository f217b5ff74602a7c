"""How forward_prefetching must be done, and how it can fail."""

from collections.abc import Iterator

from grader.calling.sharding import KEPT, ROWS
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.rank_by_rank import barriers, late_ranks
from grader.exercises.technique.sharding import by_collectives, gathered_and_reduced, gathers_and_reductions, spans_of
from grader.judging.demands import bytes_sent, inputs_kept, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import raised
from utils.trace.trace import Call, Span


def _whole_bytes(look: Look, rank: int) -> int:
    return look.case.group_size(rank) * sum(shard.nbytes for shard in look.case.inputs[rank]["shards"])


def _sent(look: Look, rank: int) -> float:
    return gathers_and_reductions(look, rank, _whole_bytes(look, rank), reductions=0)


def _each_compute(look: Look) -> Iterator[tuple[int, int, Span, list[Call], int]]:
    """(rank, layer, its span, the rank's all-gathers, depth) of every layer in groups of more than one rank."""
    for rank in look.working:
        if look.case.group_size(rank) > 1:
            gathers = [call for call in look.evidence.trace.of(rank, "all_gather") if call.bytes]
            depth = look.case.inputs[rank]["depth"]
            for number, computing in enumerate(spans_of(look, rank, "compute ")):
                yield rank, number, computing, gathers, depth


def _begun_before(look: Look) -> tuple[bool, str]:
    for rank, number, computing, gathers, depth in _each_compute(look):
        wanted = min(number + 1 + depth, len(look.case.inputs[rank]["shards"]))
        begun = sum(call.start_s <= computing.start_s for call in gathers)
        if begun < wanted:
            return False, f"rank {rank}: {begun} all-gathers begun before layer {number} computes, wanted {wanted}"
    return True, ""


def _not_too_far(look: Look) -> tuple[bool, str]:
    for rank, number, computing, gathers, depth in _each_compute(look):
        begun = [call for call in gathers if call.start_s <= computing.start_s]
        allowed = look.case.inputs[rank]["shards"][:number + 1 + depth]
        if len(begun) > len(allowed):
            return False, (f"rank {rank}: {len(begun)} all-gathers begun before layer {number} computes, "
                           f"allowed {len(allowed)}")
        if (early := sum(call.bytes for call in begun)) > (most := sum(shard.nbytes for shard in allowed)):
            return False, (f"rank {rank} began to gather shards of {early:,} B before layer {number} computes, "
                           f"allowed {most:,}")
    return True, ""


def _waited_late(look: Look) -> tuple[bool, str]:
    for rank, number, computing, gathers, _ in _each_compute(look):
        for later, call in enumerate(gathers[number + 1:], number + 1):
            waits_s = [call.wait_start_s] * (call.wait_start_s is not None) + [b.start_s for b in barriers(look, rank)]
            early = call.start_s < computing.start_s and (
                not call.is_async or any(call.start_s < wait_s < computing.start_s for wait_s in waits_s))
            if early:
                return False, f"rank {rank} waited for layer {later} before it computed layer {number}"
    return _went_on(look)


def _went_on(look: Look) -> tuple[bool, str]:
    """While a late rank computes its first layer, the others compute all those that were on their way by then."""
    for late in late_ranks(look):
        long = spans_of(look, late, "compute ")[0]
        for rank in look.working:
            ahead = spans_of(look, rank, "compute ")[1:1 + look.case.inputs[rank]["depth"]]
            if rank != late and any(computing.start_s > long.end_s for computing in ahead):
                return False, f"rank {rank} stood still until rank {late} had computed its first layer"
    return True, ""


def _freed(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        inputs, n = look.case.inputs[rank], look.case.group_size(rank)
        row_bytes = n * max(shard.nbytes for shard in inputs["shards"])
        in_turn = all(rows.facts["bytes"] <= (1 + inputs["depth"]) * row_bytes for rows in spans_of(look, rank, ROWS))
        for kept in spans_of(look, rank, KEPT):
            if kept.facts["count"] and not in_turn:
                return False, f"rank {rank} still holds {kept.facts['count']} earlier layers at layer {kept.facts['layer']}"
    return True, ""


def _too_few_rows(look: Look) -> bool:
    """Whether the layers that are under way at once have fewer places than that."""
    ahead = [rank for rank in look.working if look.case.inputs[rank]["depth"]]
    if look.evidence.ending != RETURNED or not ahead or not _begun_before(look)[0]:
        return False
    for rank in ahead:
        needed = min(1 + look.case.inputs[rank]["depth"], len(look.case.inputs[rank]["shards"]))
        if any(rows.facts["addresses"] >= needed for rows in spans_of(look, rank, ROWS)):
            return False
    return True


TECHNIQUE = by_collectives(
    gathered_and_reduced(_whole_bytes, reductions=0),
    only_calls("all_gather"),
    Demand("not prefetched", "when layer i computes, the gathers of layers up to i + depth have started", _begun_before),
    Demand("too far ahead", "never more than `depth` layers ahead", _not_too_far),
    Demand("waited too early", "a layer is waited for only when its turn comes", _waited_late),
    Demand("never freed", "earlier layers are freed", _freed),
    bytes_sent(_sent, "(n−1)/n of the layers' bytes"),
    inputs_kept(),
    symptoms=(
        Symptom("row overwritten", _too_few_rows),
        raised("out of range", "beyond the end"),
    ),
)
