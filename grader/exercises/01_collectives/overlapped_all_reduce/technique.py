"""How overlapped_all_reduce must be done, and how it can fail."""

import math
from collections.abc import Callable

import torch

from grader.exercises.technique.rank_by_rank import late_ranks, on_each_rank, spans_if_any
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited, tensor_bytes, unchanged_under_way
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import changed_under_way, group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank
from utils.trace.trace import Call, Span


def _each(wrong: Callable[[Call, Span], bool], message: str) -> Callable[[Look], tuple[bool, str]]:
    """A demand's judge: wrong(all_reduce call, compute span) of no call on any rank that takes part.

    Of each: what the sum is made of need not be in the first one.
    """

    def fault(look: Look, rank: int) -> str:
        calls, spans = look.evidence.trace.of(rank, "all_reduce"), spans_if_any(look, rank, "compute")
        if not calls or not spans:
            return f"rank {rank} never called {'compute' if calls else 'all_reduce'}"
        return f"rank {rank} {message}" if any(wrong(call, spans[0]) for call in calls) else ""

    return on_each_rank(fault)


def _waited_early(look: Look) -> tuple[bool, str]:
    """Before compute() was done; or, where one rank comes late, another begins to compute only then."""
    late = late_ranks(look)
    came_s = max((call.start_s for rank in late for call in look.evidence.trace.of(rank, "all_reduce")), default=math.inf)

    def too_early(call: Call, span: Span) -> bool:
        waits_early = call.wait_start_s is not None and call.wait_start_s < span.end_s
        return waits_early or (call.rank not in late and span.start_s >= came_s)

    return _each(too_early, "waited before compute() was done")(look)


def _sent(look: Look, rank: int) -> float:
    return bytes_sent_per_rank("all_reduce", tensor_bytes(look, rank), look.case.group_size(rank))


def _not_once(look: Look, rank: int) -> str:
    count = len(spans_if_any(look, rank, "compute"))
    return "" if count == 1 else f"rank {rank} called compute {count} times"


TECHNIQUE = Technique(
    demands=(
        needs(lambda look, r: [("all_reduce", tensor_bytes(look, r))]),
        only_calls("all_reduce"),
        Demand("blocking call", "the all-reduce is asynchronous",
               _each(lambda call, span: not call.is_async, "called a blocking all_reduce")),
        Demand("compute once", "compute() is called once", on_each_rank(_not_once)),
        Demand("computed first", "the all-reduce starts before compute()",
               _each(lambda call, span: call.start_s > span.start_s, "started the all_reduce after compute()")),
        Demand("waited too early", "the wait comes after compute()", _waited_early),
        bytes_sent(_sent, "one all-reduce of x"),
        results_waited(),
        sends_waited(),
        unchanged_under_way(),
    ),
    symptoms=(
        group_ignored(),
        unwaited(),
    ),
    fallbacks=(
        changed_under_way(),
        Symptom("read too early", wrong_ranks(lambda look, r, found, expected: same(found[1], expected[1]) and isinstance(
                    found[0], torch.Tensor) and found[0].shape == expected[0].shape), weak=True),
    ),
)
