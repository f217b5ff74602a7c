"""What a timeline draws, as plain data: a rank's bars, its calls in flight, shares of time where bars would not fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from utils.figures.traced import Call, Trace

Interval = tuple[float, float]


@dataclass(frozen=True)
class Bar:
    """One bar: what kind of time, from when to when (seconds), and what may be written in it, longest first."""

    kind: str
    start_s: float
    end_s: float
    labels: tuple[str, ...] = ()

    @property
    def interval(self) -> Interval:
        return self.start_s, self.end_s


@dataclass(frozen=True)
class Lanes:
    """One rank's row. The rank computes from 0 to end_s wherever it is not blocked.

    blocked: bars of kind "waiting", "communicating" or "stuck"; spans: named stretches, outer before inner;
    marks: named instants; flights: asynchronous calls, each with the number of its sublane, in which it lies alone.
    """

    rank: int
    end_s: float
    blocked: list[Bar]
    spans: list[Bar]
    marks: list[Bar]
    flights: list[tuple[int, Bar]]


def right_edge(trace: Trace) -> float:
    """Seconds at which a picture of the run ends: some room after the last report, if a call never finished."""
    stuck = any(c.end_s is None and c.wait_start_s is not None and not c.blocked_s for c in trace.calls)
    return max(trace.duration_s, 1e-6) * (1.2 if stuck else 1.0)


def lanes_of(trace: Trace, rank: int, right_s: float) -> Lanes:
    """The row of `rank`; calls that never finished reach to right_s."""
    calls = trace.of(rank)
    own = sorted((s for s in trace.spans if s.rank == rank), key=lambda s: (s.start_s, -s.end_s))
    blocked = [bar for call in calls for bar in blocked_bars(call, right_s)]
    named = [Bar("span", s.start_s, s.end_s, (s.name,)) for s in own]
    spans = [bar for bar in named if bar.end_s > bar.start_s]
    marks = [bar for bar in named if bar.end_s == bar.start_s]
    flights = [Bar("in flight", call.start_s, right_s if call.end_s is None else call.end_s, call_labels(call))
               for call in calls if call.is_async]
    ends = [bar.end_s for bar in (*blocked, *named)] + [call.start_s for call in calls]
    return Lanes(rank, max(ends, default=0.0), blocked, spans, marks, _sublanes(flights))


def blocked_bars(call: Call, right_s: float) -> list[Bar]:
    """How long the rank stood still for `call`: first waiting for a partner, then communicating; or stuck.

    A send or recv stands still from its start: gloo may carry a part of the message before the wait begins.
    """
    if call.wait_start_s is None:
        return []
    wait, labels = call.wait_start_s, call_labels(call)
    start = wait if call.is_async or call.op not in ("send", "recv") else call.start_s
    if call.end_s is None and not call.blocked_s:
        return [Bar("stuck", start, right_s, labels)]
    met, end = wait + call.waiting_s if call.waiting_s else start, wait + call.blocked_s
    bars = [Bar("waiting", start, met, labels), Bar("communicating", met, end, labels)]
    named = bars[end - met >= 0.5 * (met - start)]  # the call itself, unless it mostly waits
    return [bar if bar is named else Bar(bar.kind, *bar.interval) for bar in bars if bar.end_s > bar.start_s]


def call_labels(call: Call) -> tuple[str, ...]:
    """What may be written in the bar of a call, longest first."""
    if call.op in ("send", "recv") and call.peer is not None:
        arrow = "→" if call.op == "send" else "←"
        return f"{call.op} {arrow} {call.peer}", f"{arrow}{call.peer}"
    return (call.op,)


def free_parts(interval: Interval, taken: Iterable[Interval]) -> list[Interval]:
    """What is left of `interval` after the `taken` ones are cut out."""
    start, end = interval
    parts = []
    for left, right in sorted(taken):
        if left > start:
            parts.append((start, min(left, end)))
        start = max(start, right)
        if start >= end:
            break
    return [part for part in [*parts, (start, end)] if part[1] > part[0]]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as `intervals`, without overlaps."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def shares(intervals: Iterable[Interval], edges_s: Sequence[float]) -> np.ndarray:
    """The share (0 to 1) of each column between `edges_s` that the intervals cover.

    Shapes: E edges → (E−1,).
    """
    merged = union(intervals)
    if not merged:
        return np.zeros(len(edges_s) - 1)
    ends = np.array(merged)
    so_far = np.concatenate([[0.0], np.cumsum(ends[:, 1] - ends[:, 0])])
    covered = np.interp(edges_s, ends.ravel(), np.repeat(so_far, 2)[1:-1])
    return np.diff(covered) / np.diff(edges_s)


def _sublanes(bars: list[Bar]) -> list[tuple[int, Bar]]:
    """Each bar with the first sublane that is free at its start."""
    free_from: list[float] = []
    placed = []
    for bar in sorted(bars, key=lambda bar: bar.start_s):
        lane = next((i for i, end in enumerate(free_from) if end <= bar.start_s), len(free_from))
        free_from[lane:lane + 1] = [bar.end_s]
        placed.append((lane, bar))
    return placed
