"""What exercises about split modules ask: only the own part is held, all-reduces are counted, bad sizes refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.calling.splitting_gpt import BACKWARD, FORWARD, KEPT_ALIVE, OWN_NUMBERS, REFUSED
from grader.judging.compare import same
from grader.judging.demands import group_size, only_calls
from grader.judging.exercise import Demand, Look, Symptom
from utils.trace.trace import Call

MARKED_BYTES_SLACK = 64


def refused(look: Look) -> bool:
    """Whether the case asks for a ValueError."""
    return isinstance(look.right[look.working[0]], dict) and REFUSED in look.right[look.working[0]]


def not_refused(hint: str) -> Symptom:
    """A case whose sizes do not divide went on, or failed in another way."""
    return Symptom("sizes not checked", hint, lambda look: refused(look) and look.evidence.ending != "deadlocked")


def only_all_reduce(hint: str) -> Demand:
    """Gate: all-reduces are all the communication."""
    return only_calls("all_reduce", hint=hint)


def own_numbers(limit: Callable[[Look, int], int], hint: str) -> Demand:
    """Each rank's parameters have at most limit(look, rank) numbers."""
    return _marked_at_most("parameters not divided", "each rank holds its part only", OWN_NUMBERS, "count", "numbers", limit,
                           hint)


def own_storage(limit: Callable[[Look, int], int], hint: str) -> Demand:
    """What each rank's parameters keep alive is at most limit(look, rank) bytes."""
    return _marked_at_most("whole weights kept alive", "no view of a whole weight", KEPT_ALIVE, "bytes", "B",
                           lambda look, rank: limit(look, rank) + MARKED_BYTES_SLACK, hint)


def all_reduces(phase: str, wanted: Callable[[Look, int], int], nbytes: Callable[[Look, int], int], id: str, label: str,
                hint: str) -> Demand:
    """In one phase exactly wanted(look, rank) all-reduces of nbytes(look, rank), in groups of more than one rank."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working if not refused(look) else ():
            found = sum(call.bytes == nbytes(look, rank) for call in calls_in(look, rank, phase))
            if group_size(look, rank) > 1 and found != wanted(look, rank):
                return False, f"rank {rank} made {found}, wanted {wanted(look, rank)}"
        return True, ""

    return Demand(id, label, hint, judge)


def calls_in(look: Look, rank: int, phase: str) -> list[Call]:
    """One rank's calls that began in a span of that name."""
    spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name in (FORWARD, BACKWARD)]
    return [call for call in look.evidence.trace.of(rank)
            if (within := [s for s in spans if s.start_s <= call.start_s <= s.end_s]) and within[-1].name == phase]


def first_wrong(look: Look, parts: tuple[str, ...], tolerance: float = 1e-5) -> str:
    """Of the parts of a result, a dictionary, the first that is wrong on any rank; empty where all are right."""
    wrong = (part for part in parts if any(
        not isinstance(found, dict) or not same(found.get(part), expected.get(part), tolerance)
        for _, found, expected in look.pairs()))
    return next(wrong, "")


def wrong_in(part: str, parts: tuple[str, ...], test: Callable[[Look, int, Any], bool] = lambda look, rank, found: True,
             tolerance: float = 1e-5) -> Callable[[Look], bool]:
    """`part` is the first that is wrong, and test(look, rank, found part) holds on every rank where it is."""

    def matches(look: Look) -> bool:
        wrong = [(rank, found[part]) for rank, found, expected in look.pairs()
                 if first_wrong(look, parts, tolerance) == part and not same(found[part], expected[part], tolerance)]
        return bool(wrong) and all(test(look, rank, found) for rank, found in wrong)

    return matches


def _marked_at_most(id: str, label: str, name: str, fact: str, unit: str, limit: Callable[[Look, int], int],
                    hint: str) -> Demand:

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working if not refused(look) else ():
            most = max((s.facts[fact] for s in look.evidence.trace.spans if s.rank == rank and s.name == name), default=0)
            if most > limit(look, rank):
                return False, f"rank {rank}: {most:,} {unit}, its part is {limit(look, rank):,}"
        return True, ""

    return Demand(id, label, hint, judge)
