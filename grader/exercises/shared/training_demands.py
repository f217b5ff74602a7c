"""Demands and symptoms about gradients that several exercises of data parallelism share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.models import model_of, some_gradients
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import every_rank, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

A_LOSS_BYTES = 64  # a step may also sum its loss, and such


def trained_bytes(look: Look, rank: int) -> int:
    """Bytes of all gradients of the case's model, a tied one once."""
    return sum(gradient.nbytes for gradient in some_gradients(look.case, rank).values())


def dtypes_of(look: Look, rank: int) -> int:
    """How many number types the gradients have."""
    return len({gradient.dtype for gradient in some_gradients(look.case, rank).values()})


def gradient_bytes_once(times: Callable[[Look, int], int] = lambda look, r: 1, extra: Callable[[Look, int], float] =
                        lambda look, r: 0.0) -> Demand:
    """Every gradient is all-reduced once in each of `times` steps: 2(n−1)/n of its bytes; and `extra` bytes."""
    return bytes_sent(
        lambda look, r: times(look, r) * bytes_sent_per_rank("all_reduce", trained_bytes(look, r) + A_LOSS_BYTES,
                                                             group_size(look, r)) + extra(look, r),
        "at most 2(n−1)/n of the gradients' bytes a step",
        "More bytes than the gradients have: each gradient must be all-reduced once a step, a tied weight's once too, and "
        "nothing that is frozen or was reduced before.", id="reduced twice")


def own_dtypes() -> Demand:
    """Every dtype that gradients have travels as itself."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            wanted = {str(g.dtype).removeprefix("torch.") for g in some_gradients(look.case, rank).values()}
            missing = wanted - {call.dtype for call in look.evidence.trace.of(rank, "all_reduce")}
            if missing and group_size(look, rank) > 1:
                return False, f"rank {rank} sent no {' and no '.join(sorted(missing))}"
        return True, ""

    return Demand("promoted", "gradients travel in their own dtype", "torch.cat makes float64 of float32 and float64 "
                  "together, so the float32 gradients travel at twice their size: one flat tensor for each dtype.", judge)


def calls_at_most(limit: Callable[[Look, int], int], label: str, hint: str, id: str) -> Demand:
    """At most limit(look, rank) all-reduces."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            count, allowed = len(look.evidence.trace.of(rank, "all_reduce")), limit(look, rank)
            if group_size(look, rank) > 1 and count > allowed:
                return False, f"rank {rank} called all_reduce {count} times, allowed {allowed}"
        return True, ""

    return Demand(id, label, hint, judge)


def overlapped(span_name: str = "backward") -> tuple[Demand, Demand, Demand]:
    """Asynchronous; begun while the backward pass runs; waited for after it."""

    def backward_and_calls(look: Look):
        for rank in look.working:
            spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == span_name]
            calls = [c for c in look.evidence.trace.of(rank, "all_reduce") if c.bytes > A_LOSS_BYTES]
            for k, one in enumerate(spans):
                until = spans[k + 1].start_s if k + 1 < len(spans) else float("inf")
                yield rank, one, [c for c in calls if one.start_s <= c.start_s < until]

    def asynchronous(look: Look) -> tuple[bool, str]:
        for rank, _, calls in backward_and_calls(look):
            if any(not c.is_async for c in calls):
                return False, f"rank {rank} called a blocking all_reduce"
        return True, ""

    def begun(look: Look) -> tuple[bool, str]:
        for rank, backward, calls in backward_and_calls(look):
            late = not any(c.start_s < backward.end_s for c in calls)
            if calls and group_size(look, rank) > 1 and late and not _some_unused(look, rank):
                return False, f"rank {rank} started its first all_reduce after the backward pass"
        return True, ""

    def waited_late(look: Look) -> tuple[bool, str]:
        for rank, backward, calls in backward_and_calls(look):
            early = [c for c in calls if c.is_async and c.wait_start_s is not None and c.wait_start_s < backward.end_s]
            if len(calls) > 1 and len(early) > len(calls) // 2:
                return False, f"rank {rank} waited for {len(early)} of {len(calls)} during the backward pass"
        return True, ""

    return (
        Demand("blocking call", "the all-reduces are asynchronous",
               "The all-reduce blocks, so the backward pass stands still meanwhile: async_op=True returns a Work at once.",
               asynchronous),
        Demand("not overlapped", "all-reduces start during the backward pass",
               "Nothing is reduced before the backward pass is over, so nothing overlaps: start each all-reduce in a hook "
               "of its parameter (register_post_accumulate_grad_hook).", begun),
        Demand("waited too early", "the waits come after the backward pass",
               "The hook waits for its own all-reduce, so the backward pass stands still: keep the Work, and wait in the "
               "end.", waited_late),
    )


def _some_unused(look: Look, rank: int) -> bool:
    """A bucket that waits for a gradient that never comes can only be reduced in the end."""
    trained = {name for name, p in model_of(look.case, rank).named_parameters() if p.requires_grad}
    return bool(trained - some_gradients(look.case, rank).keys())


def instead(demand: Demand) -> Symptom:
    """A demand's lesson for wrong values as well."""
    return Symptom(demand.id, demand.hint,
                   lambda look: look.evidence.ending == RETURNED and not demand.judge(look)[0])


def each_gradient(test: Callable[[Look, int, torch.Tensor, torch.Tensor], bool]) -> Callable[[Look], bool]:
    """test(look, rank, found, expected) holds for every gradient of every wrong rank, of which there is one at least."""

    def of_rank(look: Look, rank: int, found: Any, expected: Any) -> bool:
        pairs = list(zip(_flat(found), _flat(expected), strict=False))
        return len(_flat(found)) == len(_flat(expected)) and all(
            (f is None and e is None) or (isinstance(f, torch.Tensor) and e is not None and test(look, rank, f, e))
            for f, e in pairs)

    return wrong_ranks(of_rank)


def _flat(value: Any) -> list:
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in _flat(one)]
    return [leaf for one in value for leaf in _flat(one)] if isinstance(value, list) else [value]


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and same(a.double(), b.double(), 1e-5)


def in_part(part: str, symptom: Symptom) -> Symptom:
    """The symptom, looked for in one entry of each rank's result."""

    def matches(look: Look) -> bool:
        outputs = [found[part] if look.case.members(rank) else found for rank, found in enumerate(look.outputs)]
        expected = [one[part] if look.case.members(rank) else one for rank, one in enumerate(look.right)]
        return symptom.matches(replace(look, evidence=replace(look.evidence, outputs=outputs), expected=expected))

    return replace(symptom, matches=matches)


def sum_for_mean() -> Symptom:
    return Symptom("sum for mean", "Every gradient is exactly n times too large: you summed where the step needs the mean. "
                                   "Divide by the number of ranks.",
                   each_gradient(lambda look, r, f, e: group_size(look, r) > 1 and close(f, e * group_size(look, r))))


def divided_twice() -> Symptom:
    return Symptom("divided twice", "Every gradient is exactly n times too small: it is divided by n twice.",
                   each_gradient(lambda look, r, f, e: group_size(look, r) > 1 and close(f * group_size(look, r), e)))


def own_kept(own: Callable[[Look, int], Any], hint: str) -> Symptom:
    """Every rank has the gradients that it had alone."""
    return Symptom("own gradients", hint, lambda look: every_rank(
        lambda look, r, found, _: same(found, own(look, r), 1e-5))(look) and any(
        group_size(look, r) > 1 for r in look.working))
