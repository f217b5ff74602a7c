"""What is asked of a pipeline's technique: which calls, in which order its passes come, how many micro-batches stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.calling.pipelining import IN_FLIGHT, PASS
from grader.judging.exercise import Demand, Look

P2P_ONLY = ("Stages are neighbours: each talks to the one before it and the next one only, by send and recv (isend, irecv, "
            "batch_isend_irecv). A collective would make all of them wait.")


def passes(look: Look, rank: int) -> list[tuple[str, int, float]]:
    """(F or B, micro-batch, when) of a rank's stage, in order."""
    found = [s for s in look.evidence.trace.spans if s.rank == rank and s.name == PASS]
    return [(s.facts["kind"], s.facts["micro"], s.start_s) for s in found]


def order_of(look: Look, rank: int) -> str:
    """Such as "FFFBBB"."""
    return "".join(kind for kind, *_ in passes(look, rank))


def order(wanted: Callable[[int, int, int], str], id: str, label: str, hint: str, gate: bool = False) -> Demand:
    """Each rank's passes come in the order wanted(stages, stage, micro-batches)."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            members = look.case.members(rank)
            right = wanted(len(members), members.index(rank), look.case.inputs[rank]["n_micro"])
            if order_of(look, rank) != right:
                return False, f"rank {rank} did {order_of(look, rank) or 'nothing'}, wanted {right}"
        return True, ""

    return Demand(id, label, hint, judge, gate)


def in_flight_at_most(limit: Callable[[int, int, int], int], label: str, hint: str) -> Demand:
    """Autograd never keeps the activations of more micro-batches than limit(stages, stage, micro-batches)."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            members = look.case.members(rank)
            allowed = limit(len(members), members.index(rank), look.case.inputs[rank]["n_micro"])
            most = max(in_flight(look, rank), default=0)
            if most > allowed:
                return False, f"rank {rank} kept activations of {most} micro-batches, allowed {allowed}"
        return True, ""

    return Demand("activations kept too long", label, hint, judge)


def in_flight(look: Look, rank: int) -> Sequence[int]:
    """Of how many micro-batches activations stood, after each forward pass."""
    return [s.facts["count"] for s in look.evidence.trace.spans if s.rank == rank and s.name == IN_FLIGHT]
