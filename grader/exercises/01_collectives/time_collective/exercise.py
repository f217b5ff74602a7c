"""Time a collective as benchmarks do: warm up, start together, many calls, the slowest rank counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import TWO_GROUPS, each_rank, ranks
from grader.judging.compare import same
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, wrong_ranks
from utils.trace.calls import POINT_TO_POINT

FIRST_S = 64.0  # by the clock of the case: the first call is far slower than the others


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 4), (2, draw.integer(2, 9)), (3, draw.integer(2, 9)), (4, 8)] + [(5, draw.integer(2, 9))] * grading
    cases = [_case(f"{ranks(n)}, {repeats} repeats", draw, n, repeats) for n, repeats in sizes]
    return [*cases, _case("groups (1,3,4) and (0,2)", draw, 5, 4, TWO_GROUPS)]


def _case(name: str, draw: Draw, n: int, repeats: int, groups: tuple | None = None) -> Case:
    """Each rank needs another time for a call: whole 1/64 s, so that sums are exact."""
    later_s = [number / 64 for number in draw.numbers.sample(range(1, 30), n)]
    return Case(name, tuple({"first_s": FIRST_S, "later_s": s, "repeats": repeats} for s in later_s), groups)


def _per_rank(look: Look, rank: int, measure: Callable[[dict], float]) -> list[float]:
    return [measure(look.case.inputs[member]) for member in look.case.members(rank)]


def _found(id: str, wrong: Callable[[Look, int, float], float], hint: str) -> Symptom:
    """The result is wrong(look, rank, right result)."""
    return Symptom(id, hint, wrong_ranks(lambda look, r, found, expected: same(found, wrong(look, r, expected))))


def _with_first(look: Look, rank: int, timed_calls: int, divisor: int) -> float:
    """Seconds a call when the first, slow call is among those that are timed."""
    return max(_per_rank(look, rank, lambda i: (FIRST_S + (timed_calls - 1) * i["later_s"]) / divisor))


def _repeats(look: Look, rank: int) -> int:
    return look.case.inputs[rank]["repeats"]


def _start_together(look: Look) -> tuple[bool, str]:
    """Between the warm-up and the first reading of the clock, each rank makes a call in which all meet."""
    trace = look.evidence.trace
    for rank in look.working:
        first = {s.name: s.start_s for s in reversed(trace.spans) if s.rank == rank}
        warm_s, timed_s = first.get("run_once", math.inf), first.get("clock", 0.0)
        if not any(warm_s < c.start_s < timed_s for c in trace.of(rank) if c.op not in POINT_TO_POINT):
            return False, f"rank {rank} read the clock without having waited for the others"
    return True, ""


def _timed_calls(look: Look) -> tuple[bool, str]:
    """Whoever reads the clock without having made the calls got the number elsewhere."""
    for rank in look.working:
        count = sum(s.rank == rank and s.name == "run_once" for s in look.evidence.trace.spans)
        if count < _repeats(look, rank):
            return False, f"rank {rank} made {count} of {_repeats(look, rank)} calls"
    return True, ""


EXERCISE = Exercise(
    title="Time a collective",
    parameters=("run_once", "repeats", "clock", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: max(i["later_s"] for i in (case.inputs[m] for m in case.members(r)))),
    tolerance=1e-6,
    technique=Technique(
        demands=(
        Demand("not timed", "run_once is called repeats times",
               "The number was not measured: call run_once() repeats times between two readings of the clock.",
               _timed_calls, gate=True),
        Demand("no barrier", "a barrier after the warm-up, before the clock starts",
               "The number is right for this clock, but with a real one it holds the time in which early ranks wait "
               "for late ones: after the warm-up, meet at dist.barrier(group), then read the clock.", _start_together),
    ),
        symptoms=(
        group_ignored("The time is that of ranks outside the group: give barrier and all_reduce the group."),
        Symptom("warm-up timed", "The first call is in the measurement, and it alone takes far longer (connections, "
                                 "buffers): call run_once() once before the first clock().",
                wrong_ranks(lambda look, r, found, _: any(
                    same(found, _with_first(look, r, k, d)) for k in (_repeats(look, r), _repeats(look, r) + 1)
                    for d in (1, _repeats(look, r), _repeats(look, r) + 1)))),
        _found("total, not per call", lambda look, r, right: right * _repeats(look, r),
               "This is the time of all repeats together: divide by repeats."),
        _found("own time", lambda look, r, right: look.case.inputs[r]["later_s"],
               "Each rank returns its own time: a collective is done when the slowest rank is done, so take the "
               "maximum over the ranks (all_reduce with dist.ReduceOp.MAX)."),
        _found("mean over ranks", lambda look, r, right: sum(t := _per_rank(look, r, lambda i: i["later_s"])) / len(t),
               "This is the mean over the ranks: a collective is done when the slowest rank is done, so take the "
               "maximum."),
        _found("sum over ranks", lambda look, r, right: sum(_per_rank(look, r, lambda i: i["later_s"])),
               "The times of the ranks were added up (SUM is all_reduce's default): they run at the same time, so "
               "take the maximum, dist.ReduceOp.MAX."),
        _found("fastest rank", lambda look, r, right: min(_per_rank(look, r, lambda i: i["later_s"])),
               "This is the fastest rank's time: a collective is done when the slowest rank is done."),
        _found("warm-up counted", lambda look, r, right: right * _repeats(look, r) / (_repeats(look, r) + 1),
               "You divide by repeats + 1, but only repeats calls lie between the two readings of the clock."),
        Symptom("result not everywhere",
                "Only some ranks have the result: every rank returns it, so use all_reduce rather than reduce.",
                wrong_ranks(lambda look, r, found, _: found is None or found == 0)),
        Symptom("a tensor", "The result is a tensor: return a plain number, tensor.item().",
                wrong_ranks(lambda look, r, found, expected: same(found.item(), expected))),
    ),
    ),
)
