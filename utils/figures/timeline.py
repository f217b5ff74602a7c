"""The timeline of a run: one row a rank, with computing, communicating, waiting, and what was in flight meanwhile."""

import numpy as np
from matplotlib.axes import Axes

from utils.figures.lanes import Bar, Interval, Lanes, lanes_of, shares
from utils.figures.style import INK, VERMILLION, Picture, first_that_fits, ink_on, styled
from utils.figures.timeline_layout import (
    COLOURS,
    Rows,
    add_legends,
    kind_of,
    label_axes,
    row_axes,
    rows_of,
    span_colours_of,
    span_texts,
    text_size,
    unnamed_spans,
)
from utils.figures.traced import Trace

MOST_CALLS_AS_BARS = 2000
COLUMNS = 600  # of a timeline of shares


@styled
def timeline_figure(trace: Trace) -> Picture:
    """One row a rank, milliseconds to the right.

    Upper lane, the rank's own thread: computing (grey, or a span's colour and name), waiting for a partner (orange),
    communicating (blue). Lower lane: asynchronous calls from start to completion, so that overlap can be seen.
    With more than 2000 calls each column shows shares of time instead of single calls.
    """
    stuck = any(c.end_s is None and c.wait_start_s is not None and not c.blocked_s for c in trace.calls)
    right_s = max(trace.duration_s, 1e-6) * (1.2 if stuck else 1.0)
    lanes = [lanes_of(trace, rank, right_s) for rank in range(trace.world_size)]
    rows = rows_of(lanes, right_s)
    span_colours = span_colours_of(lanes)
    dense = len(trace.calls) > MOST_CALLS_AS_BARS
    unnamed = {} if dense else unnamed_spans(rows, lanes, span_colours)
    figure, axes = row_axes(rows, right_s, two_legends=bool(unnamed))
    for one in lanes:
        if dense:
            _draw_shares(axes, rows, one, right_s)
        else:
            _draw_bars(axes, rows, one, span_colours)
    label_axes(axes, rows, right_s, "share of the time in each column" if dense else "")
    add_legends(figure, lanes, unnamed)
    return Picture(figure, in_words(lanes, right_s))


def in_words(lanes: list[Lanes], right_s: float) -> str:
    """What the timeline shows, in a few sentences."""
    sentences = [f"Timeline of {len(lanes)} rank{'s' * (len(lanes) > 1)} over {_ms(right_s)}."]
    for one in lanes[:16]:
        times = {kind: sum(b.end_s - b.start_s for b in one.blocked if b.kind == kind)
                 for kind in ("communicating", "waiting", "stuck")}
        parts = [f"computing {_ms(max(0.0, one.end_s - sum(times.values())))}"]
        parts += [f"{kind} {_ms(time)}" for kind, time in times.items() if time]
        parts += [f"{len(one.flights)} async calls in flight"] if one.flights else []
        sentences.append(f"Rank {one.rank}: {', '.join(parts)}.")
    return " ".join(sentences + (["And so on."] if len(lanes) > 16 else []))


def _draw_bars(axes: Axes, rows: Rows, one: Lanes, span_colours: dict[str, str]) -> None:
    bottom = rows.bottom(one.rank)
    axes.broken_barh([(0, one.end_s)], (bottom, rows.bar_in), facecolor=COLOURS["computing"])
    for bar in one.spans:
        axes.broken_barh([_extent(bar)], (bottom, rows.bar_in), facecolor=span_colours[kind_of(bar.labels[0])],
                         edgecolor="white", linewidth=0.5)
    for kind in ("waiting", "communicating", "stuck"):
        bars = [bar for bar in one.blocked if bar.kind == kind]
        look = {"hatch": "////", "edgecolor": VERMILLION} if kind == "stuck" else {"edgecolor": "white"}
        axes.broken_barh([_extent(bar) for bar in bars], (bottom, rows.bar_in), facecolor=COLOURS[kind],
                         linewidth=0.3, **look)
        for bar in bars:
            _write(axes, rows, bar.interval, bar.labels, bottom, rows.bar_in, COLOURS[kind])
    for interval, text in span_texts(rows, one):
        _write(axes, rows, interval, (text,), bottom, rows.bar_in, COLOURS["computing"])
    _draw_flights(axes, rows, one)
    _draw_marks(axes, rows, one)


def _draw_flights(axes: Axes, rows: Rows, one: Lanes) -> None:
    for lane, bar in one.flights:
        bottom = rows.bottom(one.rank) - (lane + 1) * rows.sublane_in
        axes.broken_barh([_extent(bar)], (bottom, rows.sublane_in), facecolor=COLOURS["in flight"], edgecolor="white",
                         linewidth=0.6)
        _write(axes, rows, bar.interval, bar.labels, bottom, rows.sublane_in, COLOURS["in flight"])


def _draw_marks(axes: Axes, rows: Rows, one: Lanes) -> None:
    """A small triangle above the row; its name beside it where there is room before the next one."""
    top = rows.bottom(one.rank) + rows.bar_in
    starts = [*(bar.start_s for bar in one.marks), axes.get_xlim()[1]]
    axes.plot(starts[:-1], [top + 0.05] * len(one.marks), "v", color=INK, markersize=4, clip_on=False)
    for bar, following in zip(one.marks, starts[1:], strict=True):
        room_in = (following - bar.start_s) * rows.inches_per_s - 0.15
        text = first_that_fits(bar.labels, room_in, 7) if rows.gap_in > 0.2 else ""
        axes.annotate(text, (bar.start_s, top + 0.055), xytext=(5, 0), textcoords="offset points", va="center",
                      fontsize=7, annotation_clip=False)


def _draw_shares(axes: Axes, rows: Rows, one: Lanes, right_s: float) -> None:
    """Each column of the row filled by the shares of its time: computing below, then communicating, then waiting."""
    edges, bottom = np.linspace(0, right_s, COLUMNS + 1), rows.bottom(one.rank)
    busy = shares([(0.0, one.end_s)], edges)
    level = np.full(COLUMNS, bottom)
    blocked = {kind: shares([b.interval for b in one.blocked if b.kind == kind], edges)
               for kind in ("communicating", "waiting", "stuck")}
    parts = {"computing": np.clip(busy - sum(blocked.values()), 0, 1)} | blocked
    for kind, share in parts.items():
        colour = VERMILLION if kind == "stuck" else COLOURS[kind]
        axes.stairs(level + share * rows.bar_in, edges, baseline=level, fill=True, color=colour, linewidth=0)
        level = level + share * rows.bar_in
    if one.flights:
        height = shares([bar.interval for _, bar in one.flights], edges) * rows.sublane_in
        under = bottom - rows.sublane_in * 1.1
        axes.stairs(under + height, edges, baseline=under, fill=True, color=COLOURS["in flight"], linewidth=0)


def _write(axes: Axes, rows: Rows, interval: Interval, labels: tuple[str, ...], bottom_in: float, height_in: float,
           colour: str) -> None:
    """The first label that fits, in the middle of a bar of `colour`."""
    text = rows.fitting(labels, interval, height_in)
    if text:
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5} if colour == COLOURS["stuck"] else None
        axes.text(sum(interval) / 2, bottom_in + height_in / 2, text, ha="center", va="center_baseline",
                  fontsize=text_size(height_in), color=ink_on(colour), bbox=behind)


def _extent(bar: Bar) -> tuple[float, float]:
    return bar.start_s, bar.end_s - bar.start_s


def _ms(seconds: float) -> str:
    milliseconds = 1e3 * seconds
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"
