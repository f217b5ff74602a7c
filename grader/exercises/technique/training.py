"""Demands about gradients that travel, which several exercises of data parallelism share."""

from collections.abc import Callable, Iterator

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.models import given_model, reduced
from grader.judging.demands import bytes_sent
from grader.judging.exercise import Demand, Look, Symptom
from utils.costs.formulas import bytes_sent_per_rank
from utils.trace.trace import Call, Span

A_LOSS_BYTES = 64  # a step may also sum its loss, and such


def model_bytes(look: Look, rank: int) -> int:
    """Bytes of the case's model, its buffers included."""
    model = given_model(look.case, rank)
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


def dtypes_of(look: Look, rank: int) -> int:
    """How many number types the gradients have."""
    return len({p.dtype for p in reduced(look.case, rank).values()})


def gradient_bytes_once(steps: int = 1, extra: Callable[[Look, int], float] = lambda look, rank: 0.0) -> Demand:
    """Every gradient is all-reduced once in each step: 2(n−1)/n of its bytes; and `extra` bytes."""

    def limit(look: Look, rank: int) -> float:
        nbytes = sum(p.nbytes for p in reduced(look.case, rank).values()) + A_LOSS_BYTES
        return steps * bytes_sent_per_rank("all_reduce", nbytes, look.case.group_size(rank)) + extra(look, rank)

    return bytes_sent(
        limit, "at most 2(n−1)/n of the gradients' bytes a step",
        "More bytes than the gradients have: each gradient must be all-reduced once a step, a tied weight's once too, and "
        "nothing that is frozen or was reduced before.", id="reduced twice")


def own_dtypes() -> Demand:
    """Every dtype that gradients have travels as itself."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            wanted = {str(p.dtype).removeprefix("torch.") for p in reduced(look.case, rank).values()}
            missing = wanted - {call.dtype for call in look.evidence.trace.of(rank, "all_reduce")}
            if missing and look.case.group_size(rank) > 1:
                return False, f"rank {rank} sent no {' and no '.join(sorted(missing))}"
        return True, ""

    return Demand("promoted", "gradients travel in their own dtype", "torch.cat makes float64 of float32 and float64 "
                  "together, so the float32 gradients travel at twice their size: one flat tensor for each dtype.", judge)


def instead(demand: Demand) -> Symptom:
    """A demand's lesson for wrong values as well."""
    return Symptom(demand.id, demand.hint,
                   lambda look: look.evidence.ending == RETURNED and not demand.judge(look)[0])


# ── beside the backward pass ──


def overlapped() -> tuple[Demand, Demand, Demand]:
    """Asynchronous; begun while the backward pass runs; waited for after it."""
    return (
        Demand("blocking call", "the all-reduces are asynchronous",
               "The all-reduce blocks, so the backward pass stands still meanwhile: async_op=True returns a Work at once.",
               _asynchronous),
        Demand("not overlapped", "all-reduces start during the backward pass",
               "Nothing is reduced before the backward pass is over, so nothing overlaps: start each all-reduce in a hook "
               "of its parameter (register_post_accumulate_grad_hook).", _begun),
        Demand("waited too early", "the waits come after the backward pass",
               "The hook waits for its own all-reduce, so the backward pass stands still: keep the Work, and wait in the "
               "end.", _waited_late),
    )


def _asynchronous(look: Look) -> tuple[bool, str]:
    for rank, _, calls in _backward_and_calls(look):
        if any(not call.is_async for call in calls):
            return False, f"rank {rank} called a blocking all_reduce"
    return True, ""


def _begun(look: Look) -> tuple[bool, str]:
    for rank, backward, calls in _backward_and_calls(look):
        late = not any(call.start_s < backward.end_s for call in calls)
        if calls and look.case.group_size(rank) > 1 and late and not _some_unused(look, rank):
            return False, f"rank {rank} started its first all_reduce after the backward pass"
    return True, ""


def _waited_late(look: Look) -> tuple[bool, str]:
    for rank, backward, calls in _backward_and_calls(look):
        early = [c for c in calls if c.is_async and c.wait_start_s is not None and c.wait_start_s < backward.end_s]
        if len(calls) > 1 and len(early) > len(calls) // 2:
            return False, f"rank {rank} waited for {len(early)} of {len(calls)} during the backward pass"
    return True, ""


def _backward_and_calls(look: Look) -> Iterator[tuple[int, Span, list[Call]]]:
    """Each rank's backward passes, and the gradients' all-reduces from the beginning of each to that of the next."""
    for rank in look.working:
        spans = [span for span in look.evidence.trace.spans if span.rank == rank and span.name == "backward"]
        calls = [call for call in look.evidence.trace.of(rank, "all_reduce") if call.bytes > A_LOSS_BYTES]
        ends_s = [*(span.start_s for span in spans[1:]), float("inf")]
        for span, end_s in zip(spans, ends_s, strict=False):
            yield rank, span, [call for call in calls if span.start_s <= call.start_s < end_s]


def _some_unused(look: Look, rank: int) -> bool:
    """A bucket that waits for a gradient that never comes can only be reduced in the end."""
    trained = {name for name, p in given_model(look.case, rank).named_parameters() if p.requires_grad}
    return bool(trained - reduced(look.case, rank).keys())
