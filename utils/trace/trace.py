"""What the ranks of a run said to each other: every collective, send and receive, as plain data that draws itself."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from utils.trace.calls import CallFacts, peer_of, root_of
from utils.trace.pairing import PairingBook
from utils.trace.source import Line, to_line

THREADS_APART_S = 1e-3  # what a rank's threads tell of one instant may come in another order


@dataclass(frozen=True)
class Call:
    """One collective, send or receive, on one rank. Times are seconds since the run's first event.

    bytes: size of the tensors named by the call; bytes_given: what this rank handed to the transport;
    bytes_formula: what it sends by the ring formula (costs.bytes_sent_per_rank).
    blocked_s: how long the rank's own code stood still for it; waiting_s: the part of that before the last partner came.
    changed: the program wrote into one of its tensors between its start and the wait.
    """

    rank: int
    number: int
    op: str
    group: str
    members: tuple[int, ...]
    peer: int | None
    root: int | None
    reduce_op: str | None
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    bytes_given: int
    bytes_formula: float
    is_async: bool
    start_s: float
    end_s: float | None
    wait_start_s: float | None
    blocked_s: float
    waiting_s: float
    source: Line | None
    changed: bool = False

    @property
    def waited(self) -> bool:
        """Whether the program waited for the call to complete."""
        return self.wait_start_s is not None


@dataclass(frozen=True)
class Span:
    """A named stretch (or instant, when start_s == end_s) of a rank's own work."""

    rank: int
    name: str
    start_s: float
    end_s: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """Every call of a run, in order of start, and what really crossed the wire.

    wire_bytes[i][j]: bytes that rank i's kernel sent to rank j (None where the system does not count them).
    only: the ranks whose calls are here, where those of others were left out (of many simulated ones).
    """

    world_size: int
    calls: tuple[Call, ...] = ()
    spans: tuple[Span, ...] = ()
    wire_bytes: list[list[int]] | None = None
    duration_s: float = 0.0
    only: tuple[int, ...] | None = None

    @property
    def ranks(self) -> Sequence[int]:
        """Those whose calls are here."""
        return range(self.world_size) if self.only is None else self.only

    @property
    def _part(self) -> str:
        return f"{self.world_size} ranks" if self.only is None else f"{len(self.only)} of {self.world_size} ranks"

    # ── numbers ──

    def of(self, rank: int | None = None, op: str | None = None) -> list[Call]:
        """The calls of one rank, of one operation, or both.

        Raises: ValueError for a rank that is not there, or whose calls were left out.
        """
        if rank is not None:
            self._require_rank(rank)
        if rank is not None and self.only is not None and rank not in self.only:
            raise ValueError(f"this trace has the calls of {self._part}, and not those of rank {rank}; ask for "
                             f"run.trace_of([{rank}])")
        calls = self.calls if rank is None else self._by_rank[rank]
        return [c for c in calls if op in (None, c.op)]

    def _require_rank(self, rank: int) -> None:
        if rank not in range(self.world_size):
            raise ValueError(f"there is no rank {rank!r} in this run of {self.world_size} (0 to {self.world_size - 1})")

    @cached_property
    def _by_rank(self) -> dict[int, list[Call]]:
        by_rank: dict[int, list[Call]] = defaultdict(list)
        for call in self.calls:
            by_rank[call.rank].append(call)
        return by_rank

    def bytes_sent(self, rank: int, within: str = "") -> float:
        """Bytes that `rank` sent, by the ring formula for collectives and as they are for sends.

        within: the name of a span, for what began in the first of this name alone.  Raises: ValueError without such a span.
        """
        calls = self.of(rank)
        if within:
            found = next((span for span in self.spans if (span.rank, span.name) == (rank, within)), None)
            if found is None:
                raise ValueError(f"rank {rank} has no span called {within!r}")
            calls = [call for call in calls if found.start_s <= call.start_s <= found.end_s]
        return sum(call.bytes_formula for call in calls)

    def traffic_matrix(self) -> list[list[float]]:
        """Bytes from each rank to each other rank, in point-to-point calls only (row: sender).

        Raises: ValueError where calls of some ranks were left out.
        """
        if self.only is not None:
            raise ValueError(f"this trace has the calls of {self._part}, and the rows of the others would be empty; ask for "
                             f"run.trace_of(range({self.world_size}))")
        matrix = [[0.0] * self.world_size for _ in range(self.world_size)]
        for call in self.of(op="send"):
            matrix[call.rank][call.peer] += call.bytes
        return matrix

    def rows(self) -> list[dict[str, Any]]:
        """A plain table: one dictionary a call, ready for csv.DictWriter or pandas.DataFrame."""
        return [asdict(call) | {"source": str(call.source or "")} for call in self.calls]

    def summary(self) -> list[dict[str, Any]]:
        """One row a rank and operation: calls, bytes by the formula, bytes given, time blocked."""
        groups: dict[tuple[int, str], list[Call]] = defaultdict(list)
        for call in self.calls:
            groups[call.rank, call.op].append(call)
        return [
            {"rank": rank, "op": op, "calls": len(calls),
             "bytes_formula": sum(c.bytes_formula for c in calls), "bytes_given": sum(c.bytes_given for c in calls),
             "blocked_s": sum(c.blocked_s for c in calls), "waiting_s": sum(c.waiting_s for c in calls)}
            for (rank, op), calls in sorted(groups.items())
        ]

    def wire_sent(self, rank: int) -> int | None:
        """Bytes that the system's counters saw `rank` send, or None where there are none.

        Raises: ValueError for a rank that is not there.
        """
        self._require_rank(rank)
        return None if self.wire_bytes is None else sum(self.wire_bytes[rank])

    # ── for other programs ──

    def to_chrome(self, path: str | Path | None = None) -> dict[str, Any]:
        """The trace in the JSON that chrome://tracing and ui.perfetto.dev open; written to `path` if given."""
        events = [_chrome_event(c.op, c.rank, "calls", c.start_s, c.end_s or self.duration_s,
                                {"bytes": c.bytes, "peer": c.peer, "group": c.group, "source": str(c.source or "")})
                  for c in self.calls]
        events += [_chrome_event(s.name, s.rank, "spans", s.start_s, s.end_s, s.facts) for s in self.spans]
        names = [{"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
                 for rank in self.ranks]
        document = {"traceEvents": names + events, "displayTimeUnit": "ms"}
        if path is not None:
            Path(path).write_text(json.dumps(document))
        return document

    # ── pictures ──

    def timeline(self, ranks: Sequence[int] | None = None):
        """A figure: per rank (all that are here, or these), computing, communicating and waiting."""
        from utils.figures.timeline import timeline_figure

        return timeline_figure(self, ranks)

    def traffic(self):
        """A figure: bytes from each rank (row) to each other rank (column)."""
        from utils.figures.traffic import traffic_figure

        return traffic_figure(self)

    def table(self):
        """Bytes per rank: by the formula, given to the transport, and on the wire."""
        from utils.figures.bytes_tables import bytes_table

        return bytes_table(self)

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return f"Trace of {self._part}, {len(self.calls)} calls\n{self}"

    def _repr_html_(self) -> str:
        from utils.figures.style import figure_html

        pictures = [self.timeline()] + ([self.traffic()] if self.only is None and self.of(op="send") else [])
        return "".join(figure_html(figure) for figure in pictures) + self.table()._repr_html_()


@dataclass(slots=True)
class _CallSoFar:
    """What is known of a call while reports are read."""

    rank: int
    number: int
    facts: CallFacts
    time_s: float
    last_arrival_s: float | None = None  # told of a simulated call
    sender: int | None = None  # whose message a receive from anybody took
    changed: bool = False
    wait_start_s: float | None = None
    entered_s: float = 0.0
    blocked_s: float = 0.0
    end_s: float | None = None

    def begin_to_wait(self, time_s: float) -> None:
        if self.wait_start_s is None:
            self.wait_start_s = time_s
        self.entered_s = time_s

    def go_on(self, time_s: float) -> None:
        self.blocked_s += time_s - self.entered_s
        if self.end_s is None:
            self.end_s = time_s

    def finished(self, origin_s: float, line_of: Callable[..., Line | None]) -> Call:
        facts, wait_start_s, waiting_s = self.facts, self.wait_start_s, 0.0
        if wait_start_s is not None:
            waiting_s = min(self.blocked_s, max(0.0, self.last_arrival_s - wait_start_s))
        return Call(
            rank=self.rank, number=self.number, op=facts.op, group=facts.group, members=tuple(facts.members),
            peer=peer_of(facts), root=root_of(facts), reduce_op=facts.reduce_op, dtype=facts.dtype, shape=tuple(facts.shape),
            bytes=facts.bytes, bytes_given=facts.bytes_given, bytes_formula=facts.bytes_formula, is_async=facts.is_async,
            start_s=self.time_s - origin_s, end_s=None if self.end_s is None else self.end_s - origin_s,
            wait_start_s=None if wait_start_s is None else wait_start_s - origin_s, blocked_s=self.blocked_s,
            waiting_s=waiting_s, source=line_of(*facts.source or ()), changed=self.changed)


def build_trace(world_size: int, events: Sequence[tuple[int, str, dict]], wire_bytes: list[list[int]] | None,
                only: tuple[int, ...] | None = None) -> Trace:
    """Put the reports of all ranks together (or of some `only`): (rank, kind, fields) as the ranks reported them."""
    times = [fields[key] for _, _, fields in events for key in ("time", "start", "end") if key in fields]
    origin = min(times, default=0.0)
    calls: dict[tuple[int, int], _CallSoFar] = {}
    spans: list[Span] = []
    told_until: dict[int, float] = defaultdict(lambda: -math.inf)  # rank -> the end of its latest span or mark
    for rank, kind, fields in events:
        if kind == "call":
            time = max(fields["time"], told_until[rank] - THREADS_APART_S)  # not before what it told of already
            call = _CallSoFar(rank, fields["number"], fields["facts"], time, fields.get("last_arrival"))
            calls[rank, fields["number"]] = call
            if call.facts.waits:
                call.begin_to_wait(time)
        elif kind in ("wait", "woke", "done", "waited"):
            _note(calls[rank, fields["number"]], kind, fields)
        elif kind == "span":
            spans.append(Span(rank, fields["name"], fields["start"] - origin, fields["end"] - origin))
        elif kind == "mark":
            spans.append(Span(rank, fields["name"], fields["time"] - origin, fields["time"] - origin, fields["facts"]))
        if kind in ("span", "mark"):
            told_until[rank] = max(told_until[rank], fields.get("time", fields.get("end", -math.inf)))
    _note_arrivals(calls)
    line_of = cache(lambda *where: to_line(where))  # a loop makes its calls from few lines
    rows = sorted((call.finished(origin, line_of) for call in calls.values()), key=lambda c: (c.start_s, c.rank))
    return Trace(world_size, tuple(rows), tuple(spans), wire_bytes, max(times, default=0.0) - origin, only)


def _note(call: _CallSoFar, kind: str, fields: dict) -> None:
    if "sender" in fields:
        call.sender = call.facts.members[fields["sender"]]
    if kind == "wait":
        call.changed |= fields.get("changed", False)
        call.begin_to_wait(fields["time"])
    elif kind == "waited":  # by a thread of the rank's own
        call.begin_to_wait(fields["start"])
        call.go_on(fields["time"])
    elif kind == "woke":
        call.go_on(fields["time"])
    else:
        call.end_s = fields["time"] if call.end_s is None else min(fields["time"], call.end_s)


def _note_arrivals(calls: dict[tuple[int, int], _CallSoFar]) -> None:
    """In each call, when the last of the partners that came made the matching call, unless that was told."""
    book = PairingBook(at_once=True)
    for meeting in {book.post(call.rank, call.number, call.facts, call.sender) for call in calls.values()}:
        met = [calls[posted[:2]] for posted in meeting.calls.values()]
        last_arrival_s = max(call.time_s for call in met)
        for call in met:
            if call.last_arrival_s is None:
                call.last_arrival_s = last_arrival_s


def _chrome_event(name: str, rank: int, thread: str, start_s: float, end_s: float, arguments: dict) -> dict:
    return {"name": name, "ph": "X", "pid": rank, "tid": thread, "ts": start_s * 1e6,
            "dur": max(0.0, end_s - start_s) * 1e6, "args": arguments}


