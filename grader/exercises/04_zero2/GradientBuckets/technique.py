"""How GradientBuckets must be done, and how it can fail."""

import heapq
import itertools
from collections.abc import Iterator

import torch

from grader.calling.sharding import BACKWARD
from grader.calling.training import STANDING
from grader.calling.weighing import GRADIENT
from grader.evidence.evidence import RETURNED
from grader.exercises.technique import zero
from grader.exercises.technique.models import reduced
from grader.exercises.technique.rank_by_rank import barriers, on_each_rank, spans_called
from grader.exercises.technique.sharding import by_collectives, gathers_and_reductions, held_at_most, spans_of
from grader.exercises.technique.weights import models, weighs_at_most
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import changed_under_way, wrong_ranks
from utils.trace.trace import Call, Span

HEADERS = 1.04  # gloo cuts the rows of a list into more messages than one row; what is sent twice is far more

# ── when reductions begin, and when they are waited for ──


def _passes(look: Look, rank: int, fewest: int = 2) -> Iterator[tuple[Span, list[Call]]]:
    """A rank's backward passes, and the reductions begun from the beginning of each to that of the next.

    fewest: ranks of a group that is looked at; one that is alone need not send anything.
    """
    calls, spans = look.evidence.trace.of(rank, "reduce_scatter"), spans_called(look, rank, "backward")
    ends_s = [*(span.start_s for span in spans[1:]), float("inf")]
    for span, end_s in zip(spans, ends_s, strict=False) if look.case.group_size(rank) >= fewest else ():
        yield span, [call for call in calls if span.start_s <= call.start_s < end_s]


def _under_way(calls: list[Call], moment_s: float) -> list[Call]:
    """The calls that were begun before this moment and not waited for, the oldest first."""
    return [c for c in calls if c.start_s < moment_s and (c.wait_start_s is None or c.wait_start_s >= moment_s)]


def _blocking(look: Look, rank: int) -> str:
    blocking = any(not call.is_async for _, calls in _passes(look, rank) for call in calls)
    return f"rank {rank} called a blocking reduce_scatter" if blocking else ""


def _begun_late(look: Look, rank: int) -> str:
    """All buckets but the last one are full before the backward pass is over; that one is not full."""
    passes, n = list(_passes(look, rank)), look.case.group_size(rank)
    padding = zero.padded_bytes(look, rank) - sum(gradient.nbytes for gradient in reduced(look.case, rank).values())
    for backward, calls in passes:
        late = [call for call in calls if call.start_s > backward.end_s]
        full = sum(call.bytes_given for call in late) > look.case.inputs[rank]["bucket_bytes"] + padding
        if len(late) > 1 or len(late) == len(calls) or full:
            return f"rank {rank} started {len(late)} of {len(calls)} reductions after the backward pass"
    return "" if passes or n == 1 else f"rank {rank} went through no backward pass"


def _left_early(look: Look, rank: int) -> str:
    """What leaves during the backward pass is full, without its padding; the rest is left for the end of it."""
    enough, came = look.case.inputs[rank]["bucket_bytes"], spans_of(look, rank, STANDING)
    for backward, calls in _passes(look, rank):
        left_s = [backward.start_s, *(call.start_s for call in calls if call.start_s <= backward.end_s)]
        for begin_s, end_s in itertools.pairwise(left_s):
            nbytes = sum(one.facts["newest"] for one in came if begin_s <= one.start_s < end_s)
            if nbytes < enough:
                return f"rank {rank} sent a bucket of {nbytes} B during the backward pass, wanted {enough} B or more"
    return ""


def _too_many(look: Look, rank: int) -> str:
    allowed, calls = look.case.inputs[rank]["in_flight"], look.evidence.trace.of(rank, "reduce_scatter")
    most = max((len(_under_way(calls, call.start_s)) + 1 for call in calls), default=0)
    crowded = most > allowed and look.case.group_size(rank) > 1
    return f"rank {rank} had {most} reductions in flight, allowed {allowed}" if crowded else ""


def _waited_early(look: Look, rank: int) -> str:
    """During the backward pass only for the oldest of `in_flight`, and only when another bucket is to leave at once."""
    wanted, came_s = look.case.inputs[rank]["in_flight"], [s.start_s for s in spans_of(look, rank, STANDING)]
    for backward, calls in _passes(look, rank):
        if any(backward.start_s < barrier.start_s < backward.end_s for barrier in barriers(look, rank)):
            return f"rank {rank} stood at a barrier, which is over when all that was begun before is"
        for call in (c for c in calls if c.is_async and c.wait_start_s is not None and c.wait_start_s < backward.end_s):
            wait_s, under_way = call.wait_start_s, _under_way(calls, call.wait_start_s)
            next_s = min((c.start_s for c in calls if c.start_s > wait_s), default=backward.end_s)
            if len(under_way) < wanted or any(wait_s < moment_s < next_s for moment_s in came_s):
                return f"rank {rank} waited with {len(under_way)} in flight, and no other bucket to send"
            if call is not under_way[0]:
                return f"rank {rank} waited for another bucket than the oldest"
    return ""


# ── what is there meanwhile ──


def _largest_bytes(look: Look, rank: int) -> int:
    return max((gradient.nbytes for gradient in reduced(look.case, rank).values()), default=0)


def _standing(look: Look, rank: int) -> str:
    """An open bucket has less than bucket_bytes; then comes one more gradient.

    Seen twice, at least: on a busy machine a gradient that was let go stood a moment longer, once in some hundred runs.
    """
    if not spans_of(look, rank, STANDING) and reduced(look.case, rank):
        return f"rank {rank}: no gradient was seen"
    most = min(heapq.nlargest(2, (standing.facts["bytes"] for standing in spans_of(look, rank, STANDING))), default=0)
    allowed = look.case.inputs[rank]["bucket_bytes"] + _largest_bytes(look, rank)
    return f"rank {rank} held {most:,} B of gradients, allowed less than {allowed:,} B" if most >= allowed else ""


def _room(look: Look, rank: int) -> float:
    """For all shards, the buckets in flight, the open one, and one that the transport has not let go of yet."""
    inputs, padded = look.case.inputs[rank], zero.padded_bytes(look, rank)
    padding = padded - sum(gradient.nbytes for gradient in reduced(look.case, rank).values())
    bucket = inputs["bucket_bytes"] + _largest_bytes(look, rank) + padding
    return padded / look.case.group_size(rank) + (inputs["in_flight"] + 2) * bucket


def _too_small(look: Look, rank: int) -> str:
    whole = sum(gradient.nbytes for gradient in reduced(look.case, rank).values())
    allowed = whole // look.case.inputs[rank]["bucket_bytes"] + 1
    most = max((len(calls) for _, calls in _passes(look, rank)), default=0)
    return f"rank {rank} made {most} reductions in a pass, {allowed} buckets are enough" if most > allowed else ""


def _sent(look: Look, rank: int) -> float:
    passes, whole = len(look.case.inputs[rank]["xs"]), HEADERS * zero.padded_bytes(look, rank)
    return gathers_and_reductions(look, rank, whole, gathers=0, reductions=passes)


# ── ways to fail ──


def _some_left_out(look: Look) -> bool:
    """Less was reduced than there were gradients, in the first pass already, though some was."""
    if look.evidence.ending != RETURNED:
        return False
    first = [(rank, sum(call.bytes_given for call in calls)) for rank in look.working
             for _, calls in list(_passes(look, rank, fewest=1))[:1]]
    return bool(first) and all(0 < given < sum(g.nbytes for g in reduced(look.case, rank).values()) for rank, given in first)


def _sorted_numbers(results: tuple[dict, ...]) -> torch.Tensor:
    """The numbers of all ranks' shards together, in order."""
    shards = [shard.flatten() for result in results for shard in result["shards"].values() if torch.is_tensor(shard)]
    return torch.cat([torch.empty(0), *shards]).sort().values


def _laid_end_to_end(look: Look) -> bool:
    """All ranks together hold the right numbers, but not each its own."""
    if look.evidence.ending != RETURNED:
        return False
    found, right = (_sorted_numbers(results) for results in zip(*((f, r) for _, f, r in look.pairs()), strict=True))
    return same(found, right)


TECHNIQUE = by_collectives(
    zero.trained_needed(lambda look, r: 1, "reduce_scatter"),
    only_calls("reduce_scatter"),
    Demand("blocking call", "the reduce-scatters are asynchronous", on_each_rank(_blocking)),
    Demand("not overlapped", "each full bucket leaves during the backward pass", on_each_rank(_begun_late)),
    Demand("too many in flight", "at most `in_flight` reductions in flight at once", on_each_rank(_too_many), forbids=True),
    Demand("waited too early", "a hook waits only where one more bucket must leave", on_each_rank(_waited_early)),
    Demand("full gradients", "never more gradients than an open bucket and the newest", on_each_rank(_standing)),
    held_at_most("rows kept", [BACKWARD], _room, "flat buffers are freed after their wait"),
    zero.nothing_else_kept(),
    *weighs_at_most({GRADIENT: models(1.5, each_share=1)}),
    zero.own_dtypes(),
    Demand("not bucketed", "gradients travel in buckets of bucket_bytes or more", on_each_rank(_too_small)),
    Demand("left too early", "only full buckets leave during the backward pass", on_each_rank(_left_early), forbids=True),
    bytes_sent(_sent, "(n−1)/n of the gradients' bytes a backward pass"),
    symptoms=(
        Symptom("bucket left behind", _some_left_out),
        changed_under_way(),
        zero.other_type(),
        zero.hooked_twice(),
    ),
    fallbacks=(
        Symptom("laid end to end", _laid_end_to_end),
        Symptom("gradients left", wrong_ranks(lambda look, r, result, right: same(result["shards"], right["shards"]))),
    ),
)
