"""Where a program differs from one plain process: by rank, step, and loss, gradient or weight."""

import math
from collections.abc import Collection, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from utils.figures.colours import BLACK, FAINT, PALE, VERMILLION, ink_on
from utils.figures.shapes import Colour, Point, heading, tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, styled, text_width_in

Apart = Mapping[str, Sequence[float | None]]  # what is compared -> how far apart it is at each step
ROW_IN, KIND_IN, TOP_IN, FOOT_IN, GAP_IN, MOST_CELL_IN = 0.22, 0.1, 0.86, 0.42, 0.25, 0.9
RANKS_IN, STEPS_IN = 0.54, 0.74  # from the top: the panels' names, and the steps'
LEAST = 1e-6  # apart, in the palest red; from 1 on it is full
NOTES = ("= : equal.  A number: the largest difference, divided by the right value where that is above 1 (darker: larger).",
         "No box: this rank doesn't have it.")


@styled
def departures_figure(ranks: Sequence[Apart], framed: Collection[tuple[int, str, int]] = ()) -> Picture:
    """A panel for each rank, a row for each loss, gradient and weight, a column for each step; the darker, the farther.

    ranks[r]: what is compared → how far apart at each step: 0 where it agrees, None where rank r has no such number.
    framed: (rank, what, step) of what differs first.
    Raises: ValueError without a rank or a step.
    """
    names = sorted(dict.fromkeys(name for rank in ranks for name in rank), key=_kind)
    steps = max((len(values) for rank in ranks for values in rank.values()), default=0)
    if not steps:
        raise ValueError("departures_figure needs one rank or more, with one step or more")
    left_in = 0.3 + max(text_width_in(name, 8.5) for name in names)
    cell_in = min(MOST_CELL_IN, ((WIDTH_IN - left_in - 0.2) / len(ranks) - GAP_IN) / steps)
    digits = next((digits for digits in (1, 0) if text_width_in(_mark(8e-8, digits), 7.5) <= cell_in), None)
    tops_in = _tops(names)
    height_in = TOP_IN + tops_in[-1] + ROW_IN + FOOT_IN
    figure, axes = canvas(height_in)
    heading(axes, "How far from the plain process?" + " Framed: what differs first" * bool(framed))
    write(axes, (left_in - 0.12, height_in - STEPS_IN), "step", 8.5, ha="right", color=FAINT)
    for name, top_in in zip(names, tops_in, strict=True):
        write(axes, (left_in - 0.12, height_in - TOP_IN - top_in - ROW_IN / 2), name, 8.5, ha="right")
    for number, rank in enumerate(ranks):
        x_in = left_in + number * (cell_in * steps + GAP_IN)
        write(axes, (x_in + cell_in * steps / 2, height_in - RANKS_IN), f"rank {number}", 9)
        for step in range(steps):
            write(axes, (x_in + (step + 0.5) * cell_in, height_in - STEPS_IN), str(step), 8.5, color=FAINT)
        for name, values in rank.items():
            y_in = height_in - TOP_IN - tops_in[names.index(name)] - ROW_IN
            for step, apart in enumerate(values):
                if apart is not None:
                    _cell(axes, (x_in + step * cell_in, y_in), cell_in, apart, digits)
                    if (number, name, step) in framed:
                        tile(axes, (x_in + step * cell_in, y_in), (cell_in, ROW_IN), edge=BLACK, linewidth=1.6, zorder=3)
    some_lack = any(value is None for rank in ranks for name in names for value in rank.get(name, (None,)))
    write(axes, (left_in, FOOT_IN * 0.65), NOTES[0], 7.5, ha="left", color=FAINT)
    if some_lack:
        write(axes, (left_in, FOOT_IN * 0.25), NOTES[1], 7.5, ha="left", color=FAINT)
    return Picture(figure, "How far each rank is from the plain process. " + _in_words(ranks))


def _kind(name: str) -> int:
    """Losses come before gradients, and gradients before weights, also where ranks have different layers."""
    return 0 if name == "loss" else 1 if name.startswith("gradient of ") else 2


def _tops(names: Sequence[str]) -> list[float]:
    """How far below the first row each begins, in inches: a gap parts loss, gradients and weights."""
    kinds = [_kind(name) for name in names]
    return [row * ROW_IN + len({*kinds[:row + 1]} - {kinds[0]}) * KIND_IN for row in range(len(names))]


def _cell(axes: Axes, corner: Point, width_in: float, apart: float, digits: int | None) -> None:
    colour = _colour(apart)
    tile(axes, corner, (width_in, ROW_IN), colour, "white", 1.5)
    if not apart or digits is not None:  # among many ranks, the colour has to do
        at = corner[0] + width_in / 2, corner[1] + ROW_IN / 2 - 0.01
        write(axes, at, _mark(apart, digits), 7.5, color=ink_on(colour))


def _colour(apart: float) -> Colour:
    if not apart:
        return PALE
    share = 0.12 + 0.88 * max(0.0, 1 - math.log10(min(apart, 1.0)) / math.log10(LEAST)) ** 1.5
    return tuple(1 - share * (1 - part) for part in to_rgb(VERMILLION))


def _mark(apart: float, digits: int | None) -> str:
    """All numbers of a picture in one form, as in 1.8e-1."""
    if not apart:
        return "="
    return "–" if math.isinf(apart) else f"{apart:.{digits}e}".replace("e-0", "e-").replace("e+0", "e")


def _in_words(ranks: Sequence[Apart]) -> str:
    said = []
    for number, rank in enumerate(ranks):
        wrong = {name: next((step for step, apart in enumerate(values) if apart), None) for name, values in rank.items()}
        parts = [f"{name} from step {step}" for name, step in wrong.items() if step is not None]
        said.append(f"rank {number}: " + (", ".join(parts) or "agrees"))
    return "; ".join(said) + "."
