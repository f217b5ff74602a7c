"""Where a timeline's rows, texts and legends go, in inches, and which colour means what."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from utils.figures.colours import BLUE, INK, ORANGE, SKY, STEP_COLOURS, VERMILLION
from utils.figures.lanes import Bar, Interval, Lanes, free_parts
from utils.figures.style import WIDTH_IN, first_that_fits, inch_axes, new_figure, text_width_in
from utils.schedules.schedule import KINDS

SMALLEST_TEXT = 5.5  # points
COLOURS = {"computing": "#D4D4D4", "waiting": ORANGE, "communicating": BLUE, "in flight": SKY, "stuck": "white"}
MEANINGS = {"computing": "computing", "communicating": "communicating", "waiting": "waiting for a partner",
            "in flight": "async call in flight", "stuck": "stuck: never finished"}
MOST_SUBLANES, FEW_SUBLANES = 12, 4  # of a rank, with few ranks and with many; how many calls are left out is written
SPAN_COLOURS = (*STEP_COLOURS.values(), "#BFA98F", "#A9C6A0")  # light, apart from the states' colours
HATCHED = {"hatch": "////", "edgecolor": VERMILLION}  # what is stuck
LEFT_IN, RIGHT_IN, TOP_IN, BOTTOM_IN = 0.75, 0.2, 0.42, 0.5
SIZES_IN = {6: (0.32, 0.14, 0.16), 16: (0.19, 0.075, 0.09), 1000: (0.11, 0.03, 0.04)}  # bar, sublane, gap of so many ranks


@dataclass(frozen=True)
class Rows:
    """Where the rows lie, in inches from the bottom, and how many inches a second takes."""

    bar_in: float
    sublane_in: float
    n_sublanes: int
    gap_in: float
    ranks: tuple[int, ...]  # from above
    inches_per_s: float

    @property
    def height_in(self) -> float:
        return self.bar_in + self.sublane_in * self.n_sublanes + self.gap_in

    def bottom(self, rank: int) -> float:
        """The lower edge of the bars of `rank`; its calls in flight lie below."""
        return (len(self.ranks) - self.ranks.index(rank)) * self.height_in - self.bar_in

    def fitting(self, labels: tuple[str, ...], interval: Interval, height_in: float) -> str:
        """The first label that fits into a bar, else the empty string."""
        size = text_size(height_in)
        width_in = (interval[1] - interval[0]) * self.inches_per_s - 0.06
        return first_that_fits(labels, width_in, size) if size >= SMALLEST_TEXT else ""


def text_size(height_in: float) -> float:
    """Points for text in a bar of this height."""
    return min(8.5, height_in * 72 * 0.72)


def rows_of(ranks: list[Lanes], right_s: float, dense: bool = False) -> Rows:
    """Rows that stay readable with few ranks and whole with many. dense: calls in flight need one sublane only."""
    most = 1 if dense else MOST_SUBLANES if len(ranks) <= 4 else FEW_SUBLANES
    n_sublanes = min(most, max((sublane + 1 for lanes in ranks for sublane, _ in lanes.flights), default=0))
    bar, sublane, gap = next(sizes for most, sizes in SIZES_IN.items() if len(ranks) <= most)
    if n_sublanes > 2 and len(ranks) > 2:
        sublane *= 0.6
    elif n_sublanes > 4:
        sublane *= 0.72  # too low for text: the legend says what the bars are
    if any(lanes.marks for lanes in ranks):
        gap += 0.08
    shown = tuple(lanes.rank for lanes in ranks)
    return Rows(bar, sublane, n_sublanes, gap, shown, (WIDTH_IN - LEFT_IN - RIGHT_IN) / right_s)


def row_axes(rows: Rows, right_s: float, unit: str, two_legends: bool) -> tuple[Figure, Axes]:
    """Axes whose y unit is an inch and whose x unit is a second, with the ranks' names."""
    body_in, top_in = len(rows.ranks) * rows.height_in + 0.1, TOP_IN + (0.26 if two_legends else 0.0)
    figure = new_figure(body_in + top_in + BOTTOM_IN)
    axes = inch_axes(figure, LEFT_IN, BOTTOM_IN, WIDTH_IN - LEFT_IN - RIGHT_IN, body_in)
    axes.set(xlim=(0, right_s), ylim=(0, body_in), xlabel=unit)
    axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds * 1e3:g}")
    ranks = rows.ranks[::-(-len(rows.ranks) // 32)]
    axes.set_yticks([rows.bottom(rank) + rows.bar_in / 2 for rank in ranks], [f"rank {rank}" for rank in ranks])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    return figure, axes


def kind_of(name: str) -> str:
    """A span's name without its number: micro-batches F0, F1, F2 share a colour."""
    return name.rstrip("0123456789 _-.,:#") or name


def span_colours_of(ranks: list[Lanes]) -> dict[str, str]:
    """A colour for each kind of span: a pipeline's steps have those of a schedule, others get one in order."""
    kinds = dict.fromkeys(kind_of(bar.labels[0]) for lanes in ranks for bar in lanes.spans)
    steps = {kind: STEP_COLOURS[kind] for kind in kinds if kind in STEP_COLOURS}
    free = [colour for colour in SPAN_COLOURS if colour not in steps.values()]
    others = (kind for kind in kinds if kind not in steps)
    return steps | {kind: free[i % len(free)] for i, kind in enumerate(others)}


def span_texts(rows: Rows, lanes: Lanes) -> list[Bar]:
    """Of each span the widest part that nothing covers, where the span's name fits there."""
    blocked, texts = [bar.interval for bar in lanes.blocked], []
    for i, bar in enumerate(lanes.spans):
        inner = [later.interval for later in lanes.spans[i + 1:] if later.start_s < bar.end_s]
        parts = free_parts(bar.interval, blocked + inner)
        widest = max(parts, key=lambda part: part[1] - part[0], default=(0.0, 0.0))
        if rows.fitting(bar.labels, widest, rows.bar_in):
            texts.append(Bar("span", *widest, bar.labels))
    return texts


def add_legends(figure: Figure, ranks: list[Lanes], span_colours: dict[str, str]) -> None:
    """Above the rows: the states that occur, and below them these spans."""
    kinds = {"computing"} | {bar.kind for lanes in ranks for bar in lanes.blocked}
    kinds |= {bar.kind for lanes in ranks for _, bar in lanes.flights}
    spans = span_colours_of(ranks)
    meanings = MEANINGS | ({"computing": "other code"} if spans else {})
    keys = [Patch(facecolor=COLOURS[kind], label=meaning, **HATCHED if kind == "stuck" else {})
            for kind, meaning in meanings.items() if kind in kinds]
    if spans and not span_colours and spans.keys() <= KINDS.keys():
        steps = [Patch(facecolor=colour, label=_meaning(kind)) for kind, colour in spans.items()]
        needed_in = sum(text_width_in(key.get_label(), 9) + 0.47 for key in keys + steps)  # 0.19 of it is space after a key
        keys += steps if needed_in - 0.19 <= WIDTH_IN - LEFT_IN - RIGHT_IN else []
    elif len(spans) == 1 and not span_colours:  # else their names in the bars tell the colours apart
        keys.append(Patch(facecolor=next(iter(spans.values())), label="span"))
    if any(lanes.marks for lanes in ranks):
        keys.append(Line2D([], [], color=INK, marker="v", markersize=5, linestyle="none", label="mark"))
    _add_legend(figure, keys, 0.12)
    if span_colours:
        named = [Patch(facecolor=colour, label=_meaning(kind)) for kind, colour in span_colours.items()]
        _add_legend(figure, _fitting(named), 0.38)


def _meaning(kind: str) -> str:
    """A kind of span, and what it means if it's a pipeline's step."""
    return f"{kind} {KINDS[kind]}" if kind in KINDS else kind


def _add_legend(figure: Figure, keys: list[Patch | Line2D], top_in: float) -> None:
    """Keys on one line, so far below the upper edge."""
    figure.legend(handles=keys, ncols=len(keys), bbox_to_anchor=(LEFT_IN / WIDTH_IN, 1 - top_in / figure.get_figheight()),
                  loc="upper left", borderaxespad=0.0, handlelength=1.4, handleheight=1.0, columnspacing=1.5)


def _fitting(keys: list[Patch]) -> list[Patch]:
    """As many keys as stand on one line; a last one says that there are more."""
    used_in, shown = 0.6, []
    for key in keys:
        used_in += text_width_in(key.get_label(), 9) + 0.55
        if used_in > WIDTH_IN - LEFT_IN - RIGHT_IN:
            return [*shown, Patch(alpha=0, label="…")]
        shown.append(key)
    return shown
