"""How speak_in_order must be done, and how it can fail."""

import math
from dataclasses import replace
from itertools import pairwise

from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called, spans_if_any
from grader.judging.demands import only_point_to_point, results_waited, sends_waited
from grader.judging.exercise import Demand, Look, Technique
from grader.judging.symptoms import group_ignored, no_such_rank, raised
from utils.trace.calls import POINT_TO_POINT
from utils.trace.trace import Call, Trace


def _speaks_s(look: Look, rank: int) -> float:
    """When `rank` spoke."""
    return min(span.start_s for span in spans_called(look, rank, "say"))


def _in_line(look: Look) -> list[tuple[int, int]]:
    """(rank, the next rank of its group) for every rank but the last."""
    return sorted({pair for rank in look.working for pair in pairwise(look.case.members(rank))})


def _said(look: Look, rank: int) -> list[str]:
    return [span.facts["text"] for span in spans_if_any(look, rank, "say")]


def _silent_again(look: Look, rank: int) -> str:
    spoke_once = look.case.inputs[rank]["calls"] > 1 and len(_said(look, rank)) == 1
    return f"rank {rank} spoke in one call only" if spoke_once else ""


def _not_said_once(look: Look, rank: int) -> str:
    said = _said(look, rank)
    text, calls = look.case.inputs[rank]["text"], look.case.inputs[rank]["calls"]
    what_it_said = ", then ".join(map(repr, said)) or "nothing"
    if said == [text] * calls:
        return ""
    return f"rank {rank} said {what_it_said}, expected {text!r} once{f' in each of {calls} calls' if calls > 1 else ''}"


def _waits(look: Look) -> tuple[bool, str]:
    for _, rank in _in_line(look):
        ended_s = [call.end_s for call in look.evidence.trace.of(rank) if call.op != "send" and call.end_s is not None]
        if min(ended_s, default=math.inf) > _speaks_s(look, rank):
            return False, f"rank {rank} spoke before anything told it to"
    return True, ""


def _speaks_first(look: Look) -> tuple[bool, str]:
    for rank, following in _in_line(look):
        passed_s = [call.start_s for call in look.evidence.trace.of(rank, "send") if call.peer == following]
        if min(passed_s, default=math.inf) < _speaks_s(look, rank) < math.inf:
            return False, f"rank {rank} sent to rank {following} before it spoke"
    return True, ""


def _in_order(look: Look) -> tuple[bool, str]:
    for rank, following in _in_line(look):
        if _knows_s(look.evidence.trace, rank, _speaks_s(look, rank))[following] > _speaks_s(look, following):
            return False, f"when rank {following} spoke, it could not know whether rank {rank} had"
    return True, ""


def _within_group(look: Look) -> tuple[bool, str]:
    stray = next((c for c in look.evidence.trace.calls if c.members != look.case.members(c.rank)), None)
    return stray is None, f"rank {stray.rank} called {stray.op} on the ranks {stray.members}" if stray else ""


def _passed_on(look: Look) -> tuple[bool, str]:
    left = _in_line(look)
    for call in look.evidence.trace.of(op="send"):
        if (call.rank, call.peer) not in left:
            return False, f"rank {call.rank} sent to rank {call.peer}"
        left.remove((call.rank, call.peer))
    return True, ""


# ── which rank could know what, and when: followed through messages, so that luck with clocks does not count ──


def _knows_s(trace: Trace, teller: int, from_s: float) -> list[float]:
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


TECHNIQUE = Technique(
    demands=(
        Demand("silent in a later call", "speaks in each call", on_each_rank(_silent_again), gate=True, forbids=True),
        Demand("not said once", "each rank says its text once", on_each_rank(_not_said_once), gate=True),
        Demand("does not wait", "waits for its turn", _waits, gate=True),
        Demand("passed on too early", "speaks, then passes on", _speaks_first, gate=True),
        Demand("order by luck", "speaks after the rank before", _in_order, gate=True),
        replace(only_point_to_point(), id="not a token", gate=False),
        Demand("group ignored", "talks within its group", _within_group, gate=True, forbids=True),
        Demand("detour", "one message a rank, to the next", _passed_on, forbids=True),
        results_waited(),
        sends_waited(),
    ),
    symptoms=(
        replace(raised("itself", "no such rank"), refuted=lambda look: look.case.world_size > 1),
        group_ignored(),
        no_such_rank(),
    ),
)
