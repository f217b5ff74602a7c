"""Demands about sharded parameters that several exercises of ZeRO-3 share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grader.calling.sharding import OWNED
from grader.judging.compare import same
from grader.judging.exercise import Demand, Look
from utils.trace.trace import Call


def calls_of(look: Look, rank: int, op: str) -> list[Call]:
    """One rank's calls of `op`, in order."""
    return sorted(look.evidence.trace.of(rank, op), key=lambda call: call.number)


def held(look: Look, rank: int, name: str, phase: str, fact: str = "bytes") -> list[int]:
    """What one rank's marks called `name` say of one phase."""
    return [s.facts[fact] for s in look.evidence.trace.spans
            if s.rank == rank and s.name == name and s.facts.get("phase", phase) == phase]


def first_wrong(look: Look, parts: Iterable[str]) -> str:
    """Of the parts of a result, a dictionary, the first that is wrong on any rank; empty where all are right."""
    wrong = (part for part in parts if any(not isinstance(found, dict) or not same(found.get(part), expected[part])
                                           for _, found, expected in look.pairs()))
    return next(wrong, "")


def owned_at_most(limit: Callable[[Look, int], int]) -> Demand:
    """Each rank's parameters have at most limit(look, rank) numbers."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            for count in held(look, rank, OWNED, "", "count"):
                if count > limit(look, rank):
                    return False, f"rank {rank} holds {count:,} numbers, its share is {limit(look, rank):,}"
        return True, ""

    return Demand("parameters not divided", "between steps each rank holds its shard only",
                  "The result is right, but every rank keeps whole parameters between the steps: p.data must be this rank's "
                  "piece, so that the optimizer's state is divided too.", judge)
