"""Demands of what must have crossed between ranks for their results to be right: what was not received was not used.

The bounds hold for any way of doing an operation, a library's or one's own: so much of what a rank does not have must come
to it, and so much of what only it has must leave it. Where a witness saw all that crossed, its counts decide; in a
student's notebook, where there is none, the reported calls.
"""

from collections.abc import Callable, Iterable

from grader.evidence.traffic import CONNECTION, FOREIGN, NOT_TCP, NOTICE
from grader.judging.exercise import Demand, Look
from utils.trace.calls import POINT_TO_POINT

Transfer = tuple[str, float]  # an operation, "send" or "recv", and the bytes of its whole array, as in bytes_sent_per_rank
Transfers = Callable[[Look, int], Iterable[Transfer]]

NOT_CROSSED = "nothing crossed"
A_NUMBER_BYTES = 4  # in a short type

# operation: (shares of the whole array that must come to a rank, and that must leave it), of n ranks
_LEAST = {
    "all_reduce": lambda n: (1, 1),  # the sum without one's own part; one's own part, which the others cannot know
    "reduce_scatter": lambda n: (1 / n, (n - 1) / n),
    "all_gather": lambda n: ((n - 1) / n, 1 / n),
    "all_to_all": lambda n: ((n - 1) / n, (n - 1) / n),
    "recv": lambda n: (1, 0),
    "send": lambda n: (0, 1),
}


def needs(transfers: Transfers) -> Demand:
    """Gate: where sizes fit, each rank of several received and sent what the operations of transfers(look, rank) need."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in () if look.refused else look.working:
            if look.case.group_size(rank) > 1:
                pairs = zip(("received", "sent"), crossed(look, rank), least(look, rank, transfers), strict=True)
                for done, seen, wanted in pairs:
                    if seen < wanted - 0.5:
                        return False, f"rank {rank} {done} {seen:,.0f} B, its part takes {wanted:,.0f} B"
        return True, ""

    return Demand(NOT_CROSSED, "what the results need crossed the network", judge, gate=True, for_right_values=True)


def each_way(nbytes: Callable[[Look, int], float]) -> Transfers:
    """nbytes(look, rank) bytes come to a rank, and as many leave it."""
    return lambda look, rank: [("send", nbytes(look, rank)), ("recv", nbytes(look, rank))]


def least(look: Look, rank: int, transfers: Transfers) -> tuple[float, float]:
    """Bytes that must come to a rank, and leave it."""
    n = look.case.group_size(rank)
    parts = [(nbytes, _LEAST[op](n)) for op, nbytes in transfers(look, rank)]
    return sum(nbytes * come for nbytes, (come, _) in parts), sum(nbytes * leave for nbytes, (_, leave) in parts)


def crossed(look: Look, rank: int) -> tuple[float, float]:
    """Bytes that came to a rank and left it, as dist calls; with those of which nobody can tell whose they were."""
    seen = look.evidence.messages
    if not (seen and seen.complete):
        return _reported(look, rank)
    flows = [flow for flow in seen.flows if flow.kind not in (NOTICE, CONNECTION, FOREIGN, NOT_TCP)]
    come = sum(flow.bytes for flow in flows if flow.target in (rank, None) and flow.source != rank)
    leave = sum(flow.bytes for flow in flows if flow.source in (rank, None) and flow.target != rank)
    return come, leave


def _reported(look: Look, rank: int) -> tuple[float, float]:
    """At most so much, whatever way a library takes for a collective."""
    calls = [call for call in look.evidence.trace.calls if rank in call.members and len(call.members) > 1]
    together = sum(len(call.members) * call.bytes for call in calls if call.op not in POINT_TO_POINT)
    come, leave = (sum(call.bytes for call in calls if (call.op, call.rank) == (op, rank)) for op in ("recv", "send"))
    return together + come, together + leave
