"""Where a program departs from one plain process: by rank, step, and loss, gradient or weight."""

import math
from collections.abc import Collection, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from utils.figures.colours import BLACK, FAINT, PALE, VERMILLION, ink_on
from utils.figures.shapes import Colour, Point, heading, tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, styled, text_width_in

Apart = Mapping[str, Sequence[float | None]]  # what is compared -> how far apart it is at each step
ROW_IN, TOP_IN, FOOT_IN, GAP_IN, MOST_CELL_IN = 0.22, 0.86, 0.24, 0.25, 0.62
RANKS_IN, STEPS_IN = 0.54, 0.74  # from the top: the panels' names, and the steps'
LEAST = 1e-6  # apart, in the palest red; from 1 on it is full


@styled
def departures_figure(ranks: Sequence[Apart], framed: Collection[tuple[int, str, int]] = ()) -> Picture:
    """A panel for each rank, a row for each loss, gradient and weight, a column for each step; the darker, the farther.

    ranks[r]: what is compared → how far apart at each step: 0 where it agrees, None where rank r has no such number.
    framed: (rank, what, step) of what departs first.
    Raises: ValueError without a rank or a step.
    """
    names = sorted(dict.fromkeys(name for rank in ranks for name in rank), key=_kind)
    steps = max((len(values) for rank in ranks for values in rank.values()), default=0)
    if not steps:
        raise ValueError("departures_figure needs one rank or more, with one step or more")
    left_in = 0.3 + max(text_width_in(name, 8.5) for name in names)
    cell_in = min(MOST_CELL_IN, ((WIDTH_IN - left_in - 0.2) / len(ranks) - GAP_IN) / steps)
    height_in = TOP_IN + len(names) * ROW_IN + FOOT_IN
    figure, axes = canvas(height_in)
    heading(axes, "How far from one plain process?" + " Framed: what departs first" * bool(framed))
    write(axes, (left_in - 0.12, height_in - STEPS_IN), "step", 8.5, ha="right", color=FAINT)
    for row, name in enumerate(names):
        write(axes, (left_in - 0.12, height_in - TOP_IN - (row + 0.5) * ROW_IN), name, 8.5, ha="right")
    for number, rank in enumerate(ranks):
        x_in = left_in + number * (cell_in * steps + GAP_IN)
        write(axes, (x_in + cell_in * steps / 2, height_in - RANKS_IN), f"rank {number}", 9)
        for step in range(steps):
            write(axes, (x_in + (step + 0.5) * cell_in, height_in - STEPS_IN), str(step), 8.5, color=FAINT)
        for name, values in rank.items():
            y_in = height_in - TOP_IN - (names.index(name) + 1) * ROW_IN
            for step, apart in enumerate(values):
                if apart is not None:
                    _cell(axes, (x_in + step * cell_in, y_in), cell_in, apart, (number, name, step) in framed)
    write(axes, (left_in, FOOT_IN / 2), "= where they agree; else the largest difference, relative to values above 1 "
          "(darker: larger, on a logarithmic scale)", 7.5, ha="left", color=FAINT)
    return Picture(figure, "How far each rank is from one plain process. " + _in_words(ranks))


def _kind(name: str) -> int:
    """Losses come before gradients, and gradients before weights, also where ranks have different layers."""
    return 0 if name == "loss" else 1 if name.startswith("gradient of ") else 2


def _cell(axes: Axes, corner: Point, width_in: float, apart: float, framed: bool) -> None:
    colour = _colour(apart)
    tile(axes, corner, (width_in, ROW_IN), colour, "white", 1.5)
    if text_width_in(_mark(apart), 7.5) <= width_in:  # among many ranks, the colour has to do
        write(axes, (corner[0] + width_in / 2, corner[1] + ROW_IN / 2 - 0.01), _mark(apart), 7.5, color=ink_on(colour))
    if framed:
        tile(axes, corner, (width_in, ROW_IN), edge=BLACK, linewidth=1.6, zorder=3)


def _colour(apart: float) -> Colour:
    if not apart:
        return PALE
    share = 0.2 + 0.8 * max(0.0, 1 - math.log10(min(apart, 1.0)) / math.log10(LEAST))
    return tuple(1 - share * (1 - part) for part in to_rgb(VERMILLION))


def _mark(apart: float) -> str:
    if not apart:
        return "="
    return "–" if math.isinf(apart) else f"{apart:.2g}" if apart >= 0.0095 else f"{apart:.0e}".replace("e-0", "e-")


def _in_words(ranks: Sequence[Apart]) -> str:
    said = []
    for number, rank in enumerate(ranks):
        wrong = {name: next((step for step, apart in enumerate(values) if apart), None) for name, values in rank.items()}
        parts = [f"{name} from step {step}" for name, step in wrong.items() if step is not None]
        said.append(f"rank {number}: " + (", ".join(parts) or "agrees"))
    return "; ".join(said) + "."
