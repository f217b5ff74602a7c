"""Demands about gradients that travel, which several exercises of data parallelism share."""

import itertools
from collections.abc import Callable, Iterator

from grader.calling.training import STANDING
from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique.models import model_seen, reduced
from grader.exercises.technique.rank_by_rank import late_ranks, on_each_rank, spans_called, spans_if_any
from grader.judging.compare import same_at_first
from grader.judging.demands import bytes_sent
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.needs import Transfers, needs
from grader.judging.symptoms import every_rank, raised, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank
from utils.trace.spans import HELD_UP
from utils.trace.trace import Call, Span

A_LOSS_BYTES = 64  # a step may also sum its loss, and such


def model_bytes(look: Look, rank: int) -> int:
    """Bytes of the case's model, its buffers included."""
    model = model_seen(look.case, rank)
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


def dtypes_of(look: Look, rank: int) -> set[str]:
    """The number types of the gradients, as a trace names them."""
    return {str(p.dtype).removeprefix("torch.") for p in reduced(look.case, rank).values()}


def gradient_bytes_once(steps: int = 1, extra: Callable[[Look, int], float] = lambda look, rank: 0.0) -> Demand:
    """Every gradient is all-reduced once in each step: 2(n−1)/n of its bytes; and `extra` bytes."""

    def limit(look: Look, rank: int) -> float:
        nbytes = _gradient_bytes(look, rank, steps) + steps * A_LOSS_BYTES
        return bytes_sent_per_rank("all_reduce", nbytes, look.case.group_size(rank)) + extra(look, rank)

    return bytes_sent(limit, "at most 2(n−1)/n of the gradients' bytes a step", id="reduced twice")


def gradients_needed(steps: int = 1, more: Transfers = lambda look, rank: ()) -> Demand:
    """Each step's gradients are summed over the ranks; and `more`."""
    return needs(lambda look, rank: [
        ("all_reduce", _gradient_bytes(look, rank, steps)), *more(look, rank)])


def _gradient_bytes(look: Look, rank: int, steps: int) -> int:
    """Of all steps together: a layer may rest in some."""
    return sum(p.nbytes for number in range(steps) for p in reduced(look.case, rank, number).values())


def _dtypes_missing(look: Look, rank: int) -> str:
    missing = dtypes_of(look, rank) - {call.dtype for call in look.evidence.trace.of(rank, "all_reduce")}
    alone = look.case.group_size(rank) == 1
    return f"rank {rank} sent no {' and no '.join(sorted(missing))}" if missing and not alone else ""


OWN_DTYPES = Demand("promoted", "gradients travel in their own dtype", on_each_rank(_dtypes_missing))

FROZEN_HOOKED = raised("require grad", "frozen hooked")


def _without_gradient(look: Look) -> bool:
    raised = look.evidence.ending == RAISED and "NoneType" in look.evidence.said
    return raised and len(reduced(look.case, 0)) < len(list(model_seen(look.case, 0).parameters()))


NO_GRADIENT = Symptom("no gradient", _without_gradient)


def reduced_less(look: Look, rank: int, steps: int = 1) -> str:
    """In a few words, if fewer bytes went through a rank's all-reduces than its gradients have."""
    seen = sum(call.bytes for call in look.evidence.trace.of(rank, "all_reduce"))
    wanted = _gradient_bytes(look, rank, steps)
    return f"rank {rank} all-reduced {seen} B, its gradients have {wanted} B" if seen < wanted else ""


def left_out(steps: int = 1) -> Symptom:
    """Fewer bytes were reduced than the gradients have."""

    def fewer(look: Look, rank: int, found: object, right: object) -> bool:
        return bool(reduced_less(look, rank, steps))

    return Symptom("some left out", wrong_ranks(fewer))


FEW_DIGITS = Symptom("few digits", every_rank(lambda _, rank, found, right: same_at_first(found, right)))


def instead(demand: Demand) -> Symptom:
    """A demand's lesson for wrong values as well."""
    return Symptom(demand.id, lambda look: look.evidence.ending == RETURNED and not demand.judge(look)[0])


# ── beside the backward pass ──


def _blocking(look: Look, rank: int) -> str:
    blocking = any(not call.is_async for _, calls in _backward_and_calls(look, rank) for call in calls)
    return f"rank {rank} called a blocking all_reduce" if blocking else ""


def _begun_late(look: Look, rank: int) -> str:
    """Of the gradients' bytes, most are on their way before the backward pass is over, and where it was seen when the last
    one came, most of the others before that."""
    whole = sum(p.nbytes for p in reduced(look.case, rank).values())
    if look.case.group_size(rank) == 1 or not whole or some_unused(look, rank):
        return ""
    passes = list(_backward_and_calls(look, rank))
    for backward, calls in passes:
        came = [one for one in spans_if_any(look, rank, STANDING) if backward.start_s <= one.start_s <= backward.end_s]
        ends = [(backward.end_s, whole, "during the backward pass"),
                *((one.start_s, whole - one.facts["newest"], "before the last gradient came") for one in came[-1:])]
        for end_s, ready, when in ends:
            begun = sum(call.bytes for call in calls if call.start_s < end_s)
            if 2 * begun < ready:
                return f"rank {rank} began to reduce {begun:,} of {ready:,} B {when}"
    return "" if passes else f"rank {rank} went through no backward pass"


def _waited_early(look: Look, rank: int) -> str:
    for backward, calls in _backward_and_calls(look, rank):
        early = [c for c in calls if c.is_async and c.wait_start_s is not None and c.wait_start_s < backward.end_s]
        waited, sent = (sum(call.bytes for call in some) for some in (early, calls))
        if len(calls) > 1 and 4 * waited > sent:
            return f"rank {rank} waited for {waited:,} of {sent:,} B during the backward pass"
    return ""


def _stood_still(look: Look) -> str:
    """Where one rank comes late, another begins all its all-reduces before its first; else they wait in some way."""
    late_s = max(look.case.late_s, default=0.0)
    for late in late_ranks(look):
        passes, stops = spans_called(look, late, "backward"), spans_if_any(look, late, HELD_UP)
        if not all(any(before.end_s <= stop.facts["since_s"] and stop.start_s <= after.start_s for stop in stops)
                   for before, after in itertools.pairwise(passes)):
            return f"rank {late} was not held up between two backward passes"
    backwards = [spans_called(look, rank, "backward") for rank in look.working] if late_s else []
    for passes in zip(*backwards, strict=False):
        begun = [[call for call in look.evidence.trace.of(rank, "all_reduce") if one.start_s <= call.start_s < one.end_s]
                 for rank, one in zip(look.working, passes, strict=True)]
        latest = max((calls[0].start_s for calls in begun if calls), default=0.0)
        early = {rank: calls[-1].start_s for rank, calls in zip(look.working, begun, strict=True)
                 if len(calls) > 1 and calls[0].start_s < latest - late_s / 2}
        if early and min(early.values()) >= latest:
            return f"rank {min(early)} began its last all-reduce only when the latest rank had come to its first"
    return ""


def _waited_in_backward(look: Look) -> tuple[bool, str]:
    met, seen = on_each_rank(_waited_early)(look)
    if met:
        seen = _stood_still(look)
    return not seen, seen


def _backward_and_calls(look: Look, rank: int) -> Iterator[tuple[Span, list[Call]]]:
    """A rank's backward passes, and the gradients' all-reduces from the beginning of each to that of the next.

    What blocks is none of them if it is no more than a loss.
    """
    spans = spans_called(look, rank, "backward")
    ends_s = [*(span.start_s for span in spans[1:]), float("inf")]
    for span, end_s in zip(spans, ends_s, strict=False):
        calls = [call for call in look.evidence.trace.of(rank, "all_reduce") if span.start_s <= call.start_s < end_s]
        begun = [call for call in calls if call.is_async]
        yield span, begun if sum(call.bytes for call in calls if not call.is_async) <= A_LOSS_BYTES else calls


def given_in_backward(operation: str) -> Callable[[Look, int], str]:
    """Where every parameter gets a gradient, each backward pass hands all their bytes to this operation while it goes on."""
    return lambda look, rank: "" if some_unused(look, rank) else _not_given(look, rank, operation)


def given_beside_unused(operation: str) -> Callable[[Look, int], str]:
    """The same where some get none: for what has no buckets, and so nothing that could wait for a gradient."""
    return lambda look, rank: _not_given(look, rank, operation) if some_unused(look, rank) else ""


def _not_given(look: Look, rank: int, operation: str) -> str:
    if look.case.group_size(rank) == 1:
        return ""
    calls = look.evidence.trace.of(rank, operation)
    for number, backward in enumerate(spans_called(look, rank, "backward")):
        whole = sum(g.nbytes for g in reduced(look.case, rank, number).values())
        given = sum(call.bytes_given for call in calls if backward.start_s <= call.start_s < backward.end_s)
        if given < whole:
            return f"rank {rank} gave {given:,} of {whole:,} B of gradients to {operation} during a backward pass"
    return ""


def some_unused(look: Look, rank: int) -> bool:
    """A bucket that waits for a gradient that never comes can only be reduced in the end."""
    trained = {name for name, p in model_seen(look.case, rank).named_parameters() if p.requires_grad}
    return bool(trained - reduced(look.case, rank).keys())


OVERLAPPED = (
    Demand("blocking call", "the all-reduces are asynchronous", on_each_rank(_blocking)),
    Demand("not overlapped", "all-reduces start during the backward pass", on_each_rank(_begun_late)),
    Demand("waited too early", "the waits come after the backward pass", _waited_in_backward),
)
