"""Where the ranks of a transformer block communicate: tensor parallel alone, and with the sequence in shards."""

from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from utils.figures.colours import FAINT, INK, PALE, rank_colour
from utils.figures.shapes import line, tile, write
from utils.figures.style import Picture, canvas, styled

WHOLE, FEATURES, POSITIONS = (
    "whole on every rank: (S, B, D)", "each rank has its heads or columns", "each rank has its positions: (P, B, D)")
HALVES = (("LayerNorm", "qkv, core, out", "dropout, + x"), ("LayerNorm", "up, gelu, down", "dropout, + x"))
# title, what lies outside the cut weights, and per operator: sign, forward, backward
ROWS = (
    ("Before: tensor parallel", WHOLE, ((r"$f$", "sends nothing", "all-reduce"), (r"$g$", "all-reduce", "sends nothing"))),
    ("After: tensor and sequence parallel", POSITIONS,
     (("gather", "all-gather", "reduce-scatter"), ("scatter", "reduce-scatter", "all-gather"))),
)
WIDTHS_IN, HEIGHT_IN, RADIUS_IN, GAP_IN, LEFT_IN = (0.82, 1.14, 0.93), 0.56, 0.24, 0.09, 0.25
ROW_IN, KEY_IN, MOST_RANKS = 1.65, 0.6, 6
TOGETHER = "→ together the all-reduce of the first g      ← together the all-reduce of the second f"
LABEL = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "boxstyle": "round,pad=0.15"}


@styled
def conjugates_figure(n_ranks: int = 4) -> Picture:
    """A transformer block from left to right, twice: with f and g around the cut weights, and with a gather and a scatter.

    Coloured by rank: stripes from left to right are heads or columns, stripes from top to bottom positions; grey is whole.
    Raises: ValueError unless there are 2 to 6 ranks.
    """
    if not 2 <= n_ranks <= MOST_RANKS:
        raise ValueError(f"n_ranks must be from 2 to {MOST_RANKS}; got {n_ranks}")
    height_in = len(ROWS) * ROW_IN + KEY_IN + 0.1
    figure, axes = canvas(height_in)
    words = []
    for number, (title, outside, operators) in enumerate(ROWS):
        _draw_row(axes, height_in - 0.72 - number * ROW_IN, title, outside, operators, n_ranks)
        words.append(f"{title}: norms, dropouts and sums {outside}; " + ", ".join(
            f"{'before' if i == 0 else 'after'} the cut weights: {forward} forward, {backward} backward"
            for i, (_, forward, backward) in enumerate(operators)))
    _draw_pair(axes, height_in - 0.72 - (len(ROWS) - 1) * ROW_IN)
    _draw_key(axes, n_ranks)
    return Picture(figure, f"A transformer block on {n_ranks} ranks. {'. '.join(words)}. "
                           "The first scatter and the next gather: together they send what the first g's all-reduce sent in "
                           "forward, and in backward what the second f's sent.")


def _draw_row(axes: Axes, middle: float, title: str, outside: str, operators: tuple, n_ranks: int) -> None:
    write(axes, (LEFT_IN, middle + HEIGHT_IN / 2 + 0.22), title, 10, ha="left", fontweight="bold")
    x = LEFT_IN
    for names in HALVES:
        for i, (name, width, kind) in enumerate(zip(names, WIDTHS_IN, (outside, FEATURES, outside), strict=True)):
            _stage(axes, (x, middle - HEIGHT_IN / 2), (width, HEIGHT_IN), kind, n_ranks)
            write(axes, (x + width / 2, middle), name, 8.5, zorder=6, bbox=LABEL)
            x += width + GAP_IN
            if i < len(operators):
                _operator(axes, (x + RADIUS_IN, middle), *operators[i])
                x += 2 * RADIUS_IN + GAP_IN
    line(axes, (LEFT_IN - 0.17, middle), (x - GAP_IN + 0.17, middle), INK, 1.2)


def _draw_pair(axes: Axes, middle: float) -> None:
    """A bracket below the first half's scatter and the second half's gather."""
    half_in = sum(WIDTHS_IN) + 3 * GAP_IN + 2 * (2 * RADIUS_IN + GAP_IN)
    gather, scatter = (LEFT_IN + sum(WIDTHS_IN[:i + 1]) + (2 * i + 1) * GAP_IN + (2 * i + 1) * RADIUS_IN for i in (0, 1))
    left, right, top, low = scatter, gather + half_in, middle - HEIGHT_IN / 2 - 0.42, middle - HEIGHT_IN / 2 - 0.5
    for start, end in (((left, top), (left, low)), ((left, low), (right, low)), ((right, low), (right, top))):
        line(axes, start, end, INK, 1.2)
    write(axes, ((left + right) / 2, low - 0.13), TOGETHER, 8.5)


def _operator(axes: Axes, centre: tuple[float, float], sign: str, forward: str, backward: str) -> None:
    """An ellipse, and below it what happens there on the way forward and on the way back."""
    axes.add_patch(Ellipse(centre, 2 * RADIUS_IN, 0.34, facecolor="white", edgecolor=INK, linewidth=1.4, zorder=5))
    write(axes, centre, sign, 11 if sign.startswith("$") else 7.5, zorder=6)
    for number, text in enumerate((f"→ {forward}", f"← {backward}")):
        write(axes, (centre[0], centre[1] - HEIGHT_IN / 2 - 0.14 - 0.17 * number), text, 8)


def _stage(axes: Axes, corner: tuple[float, float], size: tuple[float, float], kind: str, n_ranks: int) -> None:
    (x, y), (width, height) = corner, size
    tile(axes, corner, size, PALE, zorder=2)
    for rank in range(n_ranks):
        if kind == FEATURES:
            tile(axes, (x + rank * width / n_ranks, y), (width / n_ranks, height), rank_colour(rank), "white", 0.8, zorder=3)
        elif kind == POSITIONS:
            top = y + (n_ranks - 1 - rank) * height / n_ranks
            tile(axes, (x, top), (width, height / n_ranks), rank_colour(rank), "white", 0.8, zorder=3)


def _draw_key(axes: Axes, n_ranks: int) -> None:
    x = LEFT_IN
    for kind, width in ((WHOLE, 2.4), (FEATURES, 3.3), (POSITIONS, 0.0)):
        _stage(axes, (x, 0.12), (0.32, 0.2), kind, n_ranks)
        write(axes, (x + 0.42, 0.22), kind, 8.5, ha="left", color=FAINT)
        x += width
