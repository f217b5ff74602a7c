"""Where a timeline's rows, texts and legends go, in inches, and which colour means what."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from utils.figures.lanes import Interval, Lanes, free_parts
from utils.figures.style import (
    BLUE,
    INK,
    ORANGE,
    SKY,
    VERMILLION,
    WIDTH_IN,
    YELLOW,
    first_that_fits,
    new_figure,
    text_width_in,
)

SMALLEST_TEXT = 5.5  # points
COLOURS = {"computing": "#D4D4D4", "waiting": ORANGE, "communicating": BLUE, "in flight": SKY, "stuck": "white"}
MEANINGS = {"computing": "computing", "communicating": "communicating", "waiting": "waiting for a partner",
            "in flight": "async call in flight", "stuck": "stuck: never finished"}
SPAN_COLOURS = ("#8FD0BC", "#E9C4D8", YELLOW, "#E8A882", "#BFA98F", "#A9C6A0")  # light, apart from the states' colours
LEFT_IN, RIGHT_IN, TOP_IN, BOTTOM_IN = 0.75, 0.2, 0.42, 0.5


@dataclass(frozen=True)
class Rows:
    """Where the rows lie, in inches from the bottom, and how many inches a second takes."""

    bar_in: float
    sublane_in: float
    n_sublanes: int
    gap_in: float
    n_ranks: int
    inches_per_s: float

    @property
    def height_in(self) -> float:
        return self.bar_in + self.sublane_in * self.n_sublanes + self.gap_in

    def bottom(self, rank: int) -> float:
        """The lower edge of the bars of `rank`; its calls in flight lie below."""
        return (self.n_ranks - rank) * self.height_in - self.bar_in

    def fitting(self, labels: tuple[str, ...], interval: Interval, height_in: float) -> str:
        """The first label that fits into a bar, else the empty string."""
        size = text_size(height_in)
        width_in = (interval[1] - interval[0]) * self.inches_per_s - 0.06
        return first_that_fits(labels, width_in, size) if size >= SMALLEST_TEXT else ""


def text_size(height_in: float) -> float:
    """Points for text in a bar of this height."""
    return min(8.5, height_in * 72 * 0.72)


def rows_of(lanes: list[Lanes], right_s: float) -> Rows:
    """Rows that stay readable with few ranks and whole with many."""
    n_sublanes = max((lane + 1 for one in lanes for lane, _ in one.flights), default=0)
    marks = any(one.marks for one in lanes)
    bar, sublane, gap = next(sizes for most, sizes in [(6, (0.32, 0.14, 0.16)), (16, (0.19, 0.075, 0.09)),
                                                       (1000, (0.11, 0.03, 0.04))] if len(lanes) <= most)
    if n_sublanes > 2:
        sublane *= 0.6
    scale = (WIDTH_IN - LEFT_IN - RIGHT_IN) / right_s
    return Rows(bar, sublane, n_sublanes, gap + (0.08 if marks else 0.0), len(lanes), scale)


def row_axes(rows: Rows, right_s: float, two_legends: bool) -> tuple[Figure, Axes]:
    """Axes whose y unit is an inch and whose x unit is a second."""
    body_in, top_in = rows.n_ranks * rows.height_in + 0.1, TOP_IN + (0.26 if two_legends else 0.0)
    total_in = body_in + top_in + BOTTOM_IN
    figure = new_figure(total_in)
    width = (WIDTH_IN - LEFT_IN - RIGHT_IN) / WIDTH_IN
    axes = figure.add_axes((LEFT_IN / WIDTH_IN, BOTTOM_IN / total_in, width, body_in / total_in))
    axes.set(xlim=(0, right_s), ylim=(0, body_in))
    return figure, axes


def label_axes(axes: Axes, rows: Rows, right_s: float, note: str) -> None:
    """Name the ranks and the unit of time."""
    step = -(-rows.n_ranks // 32)
    ranks = range(0, rows.n_ranks, step)
    axes.set_yticks([rows.bottom(rank) + rows.bar_in / 2 for rank in ranks], [f"rank {rank}" for rank in ranks])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds * 1e3:g}")
    axes.set_xlabel("milliseconds" + (f"   ({note})" if note else ""))
    axes.grid(axis="x")


def kind_of(name: str) -> str:
    """A span's name without its number: micro-batches F0, F1, F2 share a colour."""
    return name.rstrip("0123456789 _-.,:#") or name


def span_colours_of(lanes: list[Lanes]) -> dict[str, str]:
    """A colour for each kind of span, in the order in which the ranks enter them."""
    kinds = dict.fromkeys(kind_of(bar.labels[0]) for one in lanes for bar in one.spans)
    return {kind: SPAN_COLOURS[i % len(SPAN_COLOURS)] for i, kind in enumerate(kinds)}


def unnamed_spans(rows: Rows, lanes: list[Lanes], span_colours: dict[str, str]) -> dict[str, str]:
    """The colours that need a legend, because no bar is wide enough for their span's name."""
    named = {kind_of(text) for one in lanes for _, text in span_texts(rows, one)}
    return {kind: colour for kind, colour in span_colours.items() if kind not in named}


def add_legends(figure: Figure, lanes: list[Lanes], span_colours: dict[str, str]) -> None:
    """Above the rows: the states that occur, and below them these spans."""
    kinds = {"computing"} | {bar.kind for one in lanes for bar in one.blocked}
    kinds |= {bar.kind for one in lanes for _, bar in one.flights}
    keys = [_key(kind) for kind in MEANINGS if kind in kinds]
    if any(one.marks for one in lanes):
        keys.append(Line2D([], [], color=INK, marker="v", markersize=5, linestyle="none", label="mark"))
    place = {"loc": "upper left", "borderaxespad": 0.0, "handlelength": 1.4, "handleheight": 1.0, "columnspacing": 1.5}
    left, height = LEFT_IN / WIDTH_IN, figure.get_size_inches()[1]
    figure.legend(handles=keys, ncols=len(keys), bbox_to_anchor=(left, 1 - 0.12 / height), **place)
    if span_colours:
        names = [Patch(facecolor=colour, label=name) for name, colour in span_colours.items()]
        shown = _fitting(names, WIDTH_IN - LEFT_IN - RIGHT_IN)
        figure.legend(handles=shown, ncols=len(shown), bbox_to_anchor=(left, 1 - 0.38 / height), **place)


def _key(kind: str) -> Patch:
    hatched = {"hatch": "////", "edgecolor": VERMILLION} if kind == "stuck" else {}
    return Patch(facecolor=COLOURS[kind], label=MEANINGS[kind], **hatched)


def _fitting(keys: list[Patch], width_in: float) -> list[Patch]:
    """As many keys as stand on one line; a last one says that there are more."""
    used, shown = 0.6, []
    for key in keys:
        used += text_width_in(key.get_label(), 9) + 0.55
        if used > width_in:
            return [*shown, Patch(alpha=0, label="…")]
        shown.append(key)
    return shown


def span_texts(rows: Rows, one: Lanes) -> list[tuple[Interval, str]]:
    """Each span's widest part that nothing covers, with the span's name where that fits."""
    blocked, found = [bar.interval for bar in one.blocked], []
    for i, bar in enumerate(one.spans):
        inner = [other.interval for other in one.spans[i + 1:] if other.start_s < bar.end_s]
        parts = free_parts(bar.interval, blocked + inner)
        widest = max(parts, key=lambda part: part[1] - part[0], default=(0.0, 0.0))
        text = rows.fitting(bar.labels, widest, rows.bar_in)
        if text:
            found.append((widest, text))
    return found
