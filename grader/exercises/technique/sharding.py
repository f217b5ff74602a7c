"""What the demands of several exercises about sharded parameters look at, and how such a result first differs."""

from collections.abc import Callable, Iterable

from grader.calling.sharding import HELD
from grader.judging.compare import same
from grader.judging.exercise import Demand, Look
from utils.trace.trace import Call, Span


def calls_of(look: Look, rank: int, op: str) -> list[Call]:
    """One rank's calls of `op`, in order."""
    return sorted(look.evidence.trace.of(rank, op), key=lambda call: call.number)


def spans_of(look: Look, rank: int, name: str) -> list[Span]:
    """One rank's spans and marks whose names begin with `name`, in order."""
    spans = [span for span in look.evidence.trace.spans if span.rank == rank and span.name.startswith(name)]
    return sorted(spans, key=lambda span: span.start_s)


def held(look: Look, rank: int, name: str, phase: str, fact: str = "bytes") -> list[int]:
    """What one rank's marks called `name` say of one phase."""
    return [s.facts[fact] for s in look.evidence.trace.spans
            if s.rank == rank and s.name == name and s.facts.get("phase", phase) == phase]


def first_wrong(look: Look, parts: Iterable[str]) -> str:
    """Of the parts of a result, a dictionary, the first that is wrong on any rank; empty where all are right."""
    wrong = (part for part in parts if any(not isinstance(found, dict) or not same(found.get(part), expected[part])
                                           for _, found, expected in look.pairs()))
    return next(wrong, "")


def first_wrong_is(*parts: str) -> Callable[[Look], bool]:
    """Whether what is first wrong of the result is one of these parts."""
    return lambda look: first_wrong(look, look.right[look.working[0]]) in parts


def held_at_most(id: str, phases: Iterable[str], allowed: Callable[[Look, int], float], label: str, hint: str) -> Demand:
    """Each rank's marks called HELD say in these phases at most allowed(look, rank) bytes."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            for phase in phases:
                most, limit = max(held(look, rank, HELD, phase), default=0), allowed(look, rank)
                if most > limit:
                    return False, f"rank {rank}, {phase}: held {most:,} B, allowed {limit:,.0f} B"
        return True, ""

    return Demand(id, label, hint, judge)
