"""Demands about split layers that several exercises share: which calls in which direction, and only a share held."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grader.calling.sharding import HELD, OWNED
from grader.exercises.technique.sharding import held
from grader.judging.demands import group_size
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import every_rank
from utils.trace.trace import Call

TOLERANCE = 1e-5  # of sums in another order, in float32 too; what bfloat16 gets is judge.ROUNDING's
SLACK_BYTES = 256


def calls_in(look: Look, rank: int, phase: str) -> list[Call]:
    """One rank's calls that began inside its span called `phase`, in order."""
    spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == phase]
    return [c for c in sorted(look.evidence.trace.of(rank), key=lambda call: call.number)
            if any(s.start_s <= c.start_s <= s.end_s for s in spans)]


def calls_are(phase: str, wanted: Mapping[str, int] | Callable[[Look, int], Mapping[str, int]], hint: str,
              id: str) -> Demand:
    """In `phase` each rank makes these calls (operation → how many) and no others; alone in its group it may make none."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            right = wanted(look, rank) if callable(wanted) else wanted
            seen: dict[str, int] = {}
            for call in calls_in(look, rank, phase):
                seen[call.op] = seen.get(call.op, 0) + 1
            if seen != {op: count for op, count in right.items() if count} and (seen or group_size(look, rank) > 1):
                return False, f"rank {rank}, {phase}: {_in_words(seen)}; wanted {_in_words(right)}"
        return True, ""

    label = f"{phase}: {_in_words(wanted)}" if not callable(wanted) else f"the right calls, {phase}"
    return Demand(id, label, hint, judge)


def sent_at_most(phase: str, limit: Callable[[Look, int], float], label: str, hint: str, id: str) -> Demand:
    """In `phase` each rank sends at most limit(look, rank) bytes, by the ring formulas."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            sent, allowed = sum(c.bytes_formula for c in calls_in(look, rank, phase)), limit(look, rank)
            if sent > allowed + 1e-6:
                return False, f"rank {rank} sent {sent:,.0f} B {phase}, allowed {allowed:,.0f} B"
        return True, ""

    return Demand(id, label, hint, judge)


def share_only(numbers: Callable[[Look, int], int], itemsize: Callable[[Look], int]) -> tuple[Demand, Demand]:
    """Each rank's parameters have at most numbers(look, rank) numbers, and nothing whole stands behind them."""

    def owned(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            for count in held(look, rank, OWNED, "", "count"):
                if count > numbers(look, rank):
                    return False, f"rank {rank} has {count:,} numbers as parameters, its share is {numbers(look, rank):,}"
        return True, ""

    def alive(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            allowed = numbers(look, rank) * itemsize(look) + SLACK_BYTES
            for count in held(look, rank, HELD, "built"):
                if count > allowed:
                    return False, f"rank {rank} keeps {count:,} B alive, its share is {allowed - SLACK_BYTES:,} B"
        return True, ""

    return (
        Demand("parameters not divided", "each rank's parameters are its share only",
               "The result is right, but the module still has whole weights among its parameters: it must not keep the "
               "layer that it was made from.", owned),
        Demand("whole weight kept", "the whole weights are not kept alive",
               "The result is right, but the whole weight stays in memory behind this rank's part: a slice is a view of it. "
               "Copy the part (clone), and do not keep the layer that it came from.", alive))


def no_error(sizes: str) -> Symptom:
    """Sizes that do not divide were taken without a word, or refused without their sizes."""

    def test(look: Look, rank: int, found: object, expected: object) -> bool:
        return "ValueError" in expected and found != expected

    return Symptom("no error", f"{sizes} that n does not divide must be refused: raise a ValueError that names both sizes, "
                               "before anything is cut.", every_rank(test))


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {op}" for op, count in sorted(counts.items()) if count) or "no communication"
