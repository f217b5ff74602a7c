"""Demands on what stands in memory, shared by the exercises of ZeRO-2."""

from __future__ import annotations

from grader.demands import group_size
from grader.exercise import Demand, Look
from grader.exercises.plain import some_gradients
from grader.inside.training import STANDING


def padded_bytes(look: Look, rank: int) -> int:
    """Bytes of all gradients, each padded to a multiple of the number of ranks; a tied one once."""
    n = group_size(look, rank)
    return sum(-(-g.numel() // n) * n * g.itemsize for g in some_gradients(look.case, rank).values())


def _standing(look: Look) -> tuple[bool, str]:
    for rank in look.active_ranks:
        sizes = sorted(g.nbytes for g in some_gradients(look.case, rank).values())
        marks = [s.facts["bytes"] for s in look.evidence.trace.spans if s.rank == rank and s.name == STANDING]
        allowed = sum(sizes[-2:])
        if marks and max(marks) > allowed:
            return False, f"rank {rank} held {max(marks):,} B of {sum(sizes):,} B at once, allowed {allowed:,} B"
    return True, ""


def never_all_gradients() -> Demand:
    """At no time stand more gradients than the two largest together."""
    return Demand("full gradients", "never more than the two largest gradients at once",
                  "The result is right, but whole gradients pile up during the backward pass: reduce-scatter each as soon "
                  "as it is there, keep the shard, and set p.grad to None in the hook.", _standing)
