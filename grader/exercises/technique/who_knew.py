"""Which rank could know what, and when: followed through messages, so that luck with clocks does not count."""

import math

from utils.trace.calls import POINT_TO_POINT
from utils.trace.trace import Call, Trace


def knows_s(trace: Trace, teller: int, from_s: float) -> list[float]:
    """From when each rank can know, through chains of calls, what `teller` knew at `from_s` (infinite: it cannot)."""
    world = range(trace.world_size)
    known_s = [from_s if rank == teller else math.inf for rank in world]
    met = [pair for a in world for b in world if a != b for pair in _met(trace, a, b)]
    for _ in world:
        for ours, theirs in met:
            if ours.start_s >= known_s[ours.rank] and theirs.end_s is not None:
                known_s[theirs.rank] = min(known_s[theirs.rank], theirs.end_s)
    return known_s


def _met(trace: Trace, a: int, b: int) -> list[tuple[Call, Call]]:
    """Calls through which rank b hears from rank a: sends with their receives, collectives with each other."""
    sent, received = [c for c in trace.of(a, "send") if c.peer == b], [c for c in trace.of(b, "recv") if c.peer == a]
    pairs = list(zip(sent, received, strict=False))
    collectives = [c for c in trace.calls if c.op not in POINT_TO_POINT]
    for group in {c.group for c in collectives}:
        ours, theirs = ([c for c in collectives if c.rank == rank and c.group == group] for rank in (a, b))
        pairs += zip(ours, theirs, strict=False)
    return pairs
