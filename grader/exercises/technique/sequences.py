"""Demands and places of mistakes that the exercises about pieces of a sequence share."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.calling.rings import REFUSED
from grader.calling.sequences import KEPT, NUMBERS
from grader.exercises.technique.sharding import first_wrong
from grader.judging.exercise import Demand, Look, Symptom
from utils.costs.formulas import bytes_sent_per_rank
from utils.trace.trace import Call

# ── where a result is wrong ──


def first_wrong_is(parts: Sequence[str], *names: str) -> Callable[[Look], bool]:
    """The first part of a result, a dictionary, that is wrong on any rank is one of these."""
    return lambda look: first_wrong(look, parts) in names


def not_refused(hint: str) -> Symptom:
    """Sizes that do not fit were to be refused, and were not, or not in words that name them."""
    return Symptom("not refused", hint, to_be_refused)


def to_be_refused(look: Look) -> bool:
    """Whether this case's sizes do not fit."""
    return any(name in right for right in look.right for name in ("refused", REFUSED))


# ── calls ──


def calls_within(look: Look, rank: int, *phases: str) -> list[Call]:
    """The calls that one rank made in the named spans."""
    spans = [s for s in look.evidence.trace.spans if s.rank == rank and s.name in phases]
    return [c for c in look.evidence.trace.of(rank) if any(s.start_s <= c.start_s <= s.end_s for s in spans)]


def only_within(phases: tuple[str, ...], *allowed: str, id: str, hint: str) -> Demand:
    """Gate: in the named spans no collective other than `allowed`."""

    def judge(look: Look) -> tuple[bool, str]:
        used = sorted({f"{c.op} in {phase}" for rank in look.working for phase in phases
                       for c in calls_within(look, rank, phase) if c.op not in allowed})
        return not used, ", ".join(used)

    return Demand(id, f"only {' and '.join(allowed)} in {' and '.join(phases)}", hint, judge, gate=True)


def whole_bytes(look: Look, rank: int) -> int:
    """Bytes of the tensor of which each member's x is a piece."""
    return sum(x.nbytes for x in look.case.peers_inputs(rank, "x"))


def gathers_and_reductions(look: Look, rank: int, whole: int, gathers: int = 1, reductions: int = 1) -> float:
    """Bytes that a rank sends in so many all-gathers and reduce-scatters of a tensor of `whole` bytes."""
    times = {"all_gather": gathers, "reduce_scatter": reductions}
    return sum(count * bytes_sent_per_rank(op, whole, look.case.group_size(rank)) for op, count in times.items())


# ── what the ranks' marks say ──


def facts(look: Look, rank: int, name: str, fact: str) -> list[Any]:
    """What one rank's marks called `name` say."""
    return [s.facts[fact] for s in look.evidence.trace.spans if s.rank == rank and s.name == name]


def kept_at_most(limit: Callable[[Look, int], float], label: str, hint: str, id: str = "whole kept") -> Demand:
    """Between forward and backward each rank of several holds at most limit(look, rank) bytes beyond inputs and result."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            if look.case.group_size(rank) > 1:
                allowed = limit(look, rank)
                for kept in facts(look, rank, KEPT, "bytes"):
                    if kept > allowed:
                        return False, f"rank {rank} kept {kept:,} B, allowed {allowed:,.0f} B"
        return True, ""

    return Demand(id, label, hint, judge)


def numbers_at_most(limit: Callable[[Look, int], int]) -> Demand:
    """Each rank's parameters have at most limit(look, rank) numbers."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            for count in facts(look, rank, NUMBERS, "count"):
                if count > limit(look, rank):
                    return False, f"rank {rank} holds {count:,} numbers, its share is {limit(look, rank):,}"
        return True, ""

    return Demand("weights not cut", "each rank holds its shard of qkv, out, up and down",
                  "The result is right, but ranks hold weights that they do not use: keep what cut_block gives only.",
                  judge)
