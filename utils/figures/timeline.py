"""The timeline of a run: one row a rank, with computing, communicating, waiting, and what was in flight meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch

from utils.figures.colours import INK, VERMILLION, ink_on
from utils.figures.lanes import Bar, Lanes, lanes_of, right_edge, shares
from utils.figures.shapes import write
from utils.figures.style import Picture, first_that_fits, styled
from utils.figures.timeline_layout import (
    COLOURS,
    HATCHED,
    Rows,
    add_legends,
    call_texts,
    kind_of,
    row_axes,
    rows_of,
    span_colours_of,
    span_texts,
    text_size,
)
from utils.figures.traced import Trace

MOST_CALLS_AS_BARS = 2000
COLUMNS = 600  # of a timeline of shares
NARROWEST_IN, FEW_BARS = 0.03, 40  # among few bars, a call's longer part is so wide at least: a short call can be seen
BLOCKED = ("communicating", "waiting", "stuck")


@styled
def timeline_figure(trace: Trace, ranks: Sequence[int] | None = None, after: str = "",
                    names: Mapping[str, Sequence[str]] | None = None, lasts_s: float | None = None,
                    all_spans_in_key: bool = False) -> Picture:
    """One row a rank, milliseconds to the right.  ranks: which ones, in which order; None for all that the trace has.
    after: the name of a call, such as barrier: the picture begins where the first rank leaves its last such call.
    names: {op: what to write in each rank's asynchronous calls of it, in their order}, such as {"all_gather": ["g1", "g2"]}.
    lasts_s: the time that the picture has room for, so that two of them can be compared; None for that of the run.
    all_spans_in_key: also the spans whose names stand in their bars, so that the keys of two timelines are alike.

    Upper lane, the rank's own thread: computing (grey, or a span's colour and name), waiting for a partner (orange),
    communicating (blue). Lower lanes: asynchronous calls from start to completion, so that overlap can be seen. Each lies
    alone in its lane; there are 12 at most, and as many calls as find no lane are counted on the left.
    With more than 2000 calls each column shows shares of time instead of single calls.
    Raises: ValueError for a rank that the run has not, or none at all.
    """
    shown = trace.ranks if ranks is None else ranks
    if not shown or not set(shown) <= set(range(trace.world_size)):
        raise ValueError(f"ranks: some of 0 to {trace.world_size - 1}, please; got {list(shown)}")
    if after and trace.of(op=after):
        trace = _begun_after(trace, after)
    right_s = lasts_s or right_edge(trace)
    drawn = [_named(lanes_of(trace, rank, right_s), names or {}) for rank in shown]
    dense = sum(len(trace.of(rank)) for rank in shown) > MOST_CALLS_AS_BARS
    rows, span_colours = rows_of(drawn, right_s, dense), span_colours_of(drawn)
    texts = [[] if dense else span_texts(rows, lanes) for lanes in drawn]
    somewhere_unnamed = {kind for lanes, of_rank in zip(drawn, texts, strict=True)
                         for kind in _kinds(lanes.spans) - _kinds(of_rank)}
    in_key = set(span_colours) if all_spans_in_key else somewhere_unnamed
    unnamed = {} if dense else {kind: colour for kind, colour in span_colours.items() if kind in in_key}
    unit = "milliseconds" + "   (share of the time in each column)" * dense
    figure, axes = row_axes(rows, right_s, unit, two_legends=bool(unnamed))
    for lanes, of_rank in zip(drawn, texts, strict=True):
        if dense:
            _draw_shares(axes, rows, lanes, right_s)
        else:
            _draw_bars(axes, rows, lanes, span_colours, of_rank)
    add_legends(figure, drawn, unnamed)
    return Picture(figure, in_words(drawn, right_s))


def _kinds(bars: Sequence[Bar]) -> set[str]:
    return {kind_of(bar.labels[0]) for bar in bars}


def _begun_after(trace: Trace, op: str) -> Trace:
    """What of the trace begins after the last `op`, timed from there."""
    ends = [max((c.end_s or 0.0 for c in trace.of(rank, op)), default=0.0) for rank in trace.ranks]
    begin = min(ends)
    calls = [replace(c, start_s=c.start_s - begin, end_s=None if c.end_s is None else c.end_s - begin,
                     wait_start_s=None if c.wait_start_s is None else c.wait_start_s - begin)
             for c in trace.calls if c.start_s >= begin]
    spans = [replace(s, start_s=s.start_s - begin, end_s=s.end_s - begin) for s in trace.spans if s.start_s >= begin]
    return replace(trace, calls=tuple(calls), spans=tuple(spans), duration_s=trace.duration_s - begin)


def _named(lanes: Lanes, names: Mapping[str, Sequence[str]]) -> Lanes:
    """The calls in flight with names of their own, as far as there are some."""
    left, flights = {op: list(of_op) for op, of_op in names.items()}, []
    for sublane, bar in sorted(lanes.flights, key=lambda flight: flight[1].start_s):
        own = left.get(bar.labels[0])
        flights.append((sublane, replace(bar, labels=(own.pop(0),)) if own else bar))
    return replace(lanes, flights=flights)


def in_words(ranks: list[Lanes], right_s: float) -> str:
    """What the timeline shows, in a few sentences."""
    sentences = [f"Timeline of {len(ranks)} rank{'s' * (len(ranks) > 1)} over {_ms(right_s)}."]
    for lanes in ranks[:16]:
        times = {kind: sum(b.end_s - b.start_s for b in lanes.blocked if b.kind == kind) for kind in BLOCKED}
        parts = [f"computing {_ms(max(0.0, lanes.end_s - sum(times.values())))}"]
        parts += [f"{kind} {_ms(time)}" for kind, time in times.items() if time]
        parts += [f"{len(lanes.flights)} async calls in flight"] if lanes.flights else []
        sentences.append(f"Rank {lanes.rank}: {', '.join(parts)}.")
    return " ".join(sentences + (["And so on."] if len(ranks) > 16 else []))


def _draw_bars(axes: Axes, rows: Rows, lanes: Lanes, span_colours: dict[str, str], span_texts: list[Bar]) -> None:
    bottom = rows.bottom(lanes.rank)
    axes.broken_barh([(0, lanes.end_s)], (bottom, rows.bar_in), facecolor=COLOURS["computing"])
    for bar in lanes.spans:
        _draw(axes, [bar], bottom, rows.bar_in, span_colours[kind_of(bar.labels[0])], linewidth=0.5)
    blocked = _widened(lanes, NARROWEST_IN / rows.inches_per_s) if len(lanes.blocked) <= FEW_BARS else lanes.blocked
    for kind in BLOCKED:
        bars = [bar for bar in blocked if bar.kind == kind]
        _draw(axes, bars, bottom, rows.bar_in, COLOURS[kind], **HATCHED if kind == "stuck" else {})
    for bar in (*call_texts(rows, lanes.blocked), *span_texts):
        _write(axes, rows, bar, bottom, rows.bar_in)
    left_out = sum(sublane >= rows.n_sublanes for sublane, _ in lanes.flights)
    if left_out:
        axes.annotate(f"+{left_out} more", (0, bottom - (rows.n_sublanes - 0.5) * rows.sublane_in), xytext=(-4, 0),
                      textcoords="offset points", ha="right", va="center", fontsize=7, annotation_clip=False)
    for sublane, bar in (flight for flight in lanes.flights if flight[0] < rows.n_sublanes):
        under = bottom - (sublane + 1) * rows.sublane_in
        _draw(axes, [bar], under, rows.sublane_in, COLOURS["in flight"], linewidth=0.6)
        _write(axes, rows, bar, under, rows.sublane_in)
    _draw_marks(axes, rows, lanes)


def _widened(lanes: Lanes, shortest_s: float) -> list[Bar]:
    """The blocked bars; those that stand for their call last so long at least, unless another bar begins before."""
    starts = [bar.start_s for bar in (*lanes.blocked, *lanes.spans)]
    wide = []
    for bar in lanes.blocked:
        room_until = min((start for start in starts if start > bar.start_s), default=np.inf)
        end_s = max(bar.end_s, min(bar.start_s + shortest_s, room_until)) if bar.labels else bar.end_s
        wide.append(replace(bar, end_s=end_s))
    return wide


def _draw_marks(axes: Axes, rows: Rows, lanes: Lanes) -> None:
    """A small triangle above the row; its name beside it where there is room before the next one."""
    top = rows.bottom(lanes.rank) + rows.bar_in
    starts = [*(bar.start_s for bar in lanes.marks), axes.get_xlim()[1]]
    axes.plot(starts[:-1], [top + 0.05] * len(lanes.marks), "v", color=INK, markersize=4, clip_on=False)
    for bar, following in zip(lanes.marks, starts[1:], strict=True):
        room_in = (following - bar.start_s) * rows.inches_per_s - 0.15
        text = first_that_fits(bar.labels, room_in, 7) if rows.gap_in > 0.2 else ""
        axes.annotate(text, (bar.start_s, top + 0.055), xytext=(5, 0), textcoords="offset points", va="center",
                      fontsize=7, annotation_clip=False)


def _draw_shares(axes: Axes, rows: Rows, lanes: Lanes, right_s: float) -> None:
    """Each column of the row filled by the shares of its time: computing below, then communicating, then waiting."""
    edges, bottom = np.linspace(0, right_s, COLUMNS + 1), rows.bottom(lanes.rank)
    blocked = {kind: shares([b.interval for b in lanes.blocked if b.kind == kind], edges) for kind in BLOCKED}
    busy = shares([(0.0, lanes.end_s)], edges)
    parts = {"computing": np.clip(busy - sum(blocked.values()), 0, 1)} | blocked

    def fill(under, heights, colour: str) -> None:
        patch = StepPatch(under + heights, edges, baseline=under, fill=True, color=colour, linewidth=0)
        axes.add_artist(patch)  # not axes.stairs, which looks for limits, and takes long over it
        patch.set_clip_path(axes.patch)

    level = np.full(COLUMNS, bottom)
    for kind, share in parts.items():
        fill(level, share * rows.bar_in, VERMILLION if kind == "stuck" else COLOURS[kind])
        level = level + share * rows.bar_in
    if lanes.flights:
        in_flight = shares([bar.interval for _, bar in lanes.flights], edges)
        fill(bottom - rows.sublane_in * 1.1, in_flight * rows.sublane_in, COLOURS["in flight"])


def _draw(axes: Axes, bars: list[Bar], bottom_in: float, height_in: float, colour: str, **look) -> None:
    extents = [(bar.start_s, bar.end_s - bar.start_s) for bar in bars]
    axes.broken_barh(extents, (bottom_in, height_in), facecolor=colour, **{"edgecolor": "white", "linewidth": 0.3} | look)


def _write(axes: Axes, rows: Rows, bar: Bar, bottom_in: float, height_in: float) -> None:
    """The first label that fits, in the middle of a bar."""
    text = rows.fitting(bar.labels, bar.interval, height_in)
    if text:
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5} if bar.kind == "stuck" else None
        write(axes, (sum(bar.interval) / 2, bottom_in + height_in / 2), text, text_size(height_in), va="center_baseline",
              color=ink_on(COLOURS.get(bar.kind, COLOURS["computing"])), bbox=behind)


def _ms(seconds: float) -> str:
    milliseconds = 1e3 * seconds
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"
