"""Where a program differs from one plain process: by rank, step, and loss, gradient or weight."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from utils.figures.colours import BLACK, FAINT, INK, PALE
from utils.figures.shapes import Point, heading, tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, styled, text_width_in

Apart = Mapping[str, Sequence[float | None]]  # what is compared -> how far apart it is at each step
ROW_IN, KIND_IN, TOP_IN, GAP_IN, MOST_CELL_IN = 0.22, 0.1, 0.86, 0.25, 1.2
RANKS_IN, STEPS_IN = 0.54, 0.74  # from the top: the panels' names, and the steps'
FIRST, LATER = "#F0924E", "#F9E0CF"  # what differs first, and what differs besides
LATER_INK = "#666666"  # so the eye goes to the frames
NOTES = ("= : all elements agree.  A number: the largest error of an element; relative, if its right value is above 1.",
         "× and a factor: each element is its right value times this factor.", "No box: this rank doesn't have it.")


@styled
def departures_figure(ranks: Sequence[Apart], first: Mapping[tuple[int, str, int], float | None] | None = None) -> Picture:
    """A panel for each rank, a row for each loss, gradient and weight, a column for each step.

    ranks[r]: what is compared → how far apart at each step: 0 where it agrees, None where rank r has no such number.
    first: (rank, what, step) of what differs first, which gets a frame → the one factor of all its elements, or None.
    Raises: ValueError without a rank or a step.
    """
    first = first or {}
    names = sorted(dict.fromkeys(name for rank in ranks for name in rank), key=_kind)
    steps = max((len(values) for rank in ranks for values in rank.values()), default=0)
    if not steps:
        raise ValueError("departures_figure needs one rank or more, with one step or more")
    left_in = 0.3 + max(text_width_in(name, 8.5) for name in names)
    cell_in = min(MOST_CELL_IN, ((WIDTH_IN - left_in - 0.2) / len(ranks) - GAP_IN) / steps)
    widest = {1: _mark(8.8e-3, 1), 0: _mark(8e-3, 0)}
    digits = next((digits for digits, mark in widest.items() if text_width_in(mark, 7.5) + 0.03 <= cell_in), None)
    tops_in = _tops(names)
    lack = any(value is None for rank in ranks for name in names for value in rank.get(name, (None,)))
    notes = [NOTES[0], *(note for note, due in zip(NOTES[1:], (any(first.values()), lack), strict=True) if due)]
    foot_in = 0.2 + 0.18 * len(notes)
    height_in = TOP_IN + tops_in[-1] + ROW_IN + foot_in
    figure, axes = canvas(height_in)
    heading(axes, "How far from the plain process?" + " Framed: what differs first" * bool(first))
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
                if apart is None:
                    continue
                corner, key = (x_in + step * cell_in, y_in), (number, name, step)
                colour = FIRST if key in first else LATER if apart else PALE
                mark, ink = _fitting(apart, first.get(key), digits, cell_in), INK if key in first else LATER_INK
                _cell(axes, corner, cell_in, colour, mark, ink)
                if key in first:
                    tile(axes, corner, (cell_in, ROW_IN), edge=BLACK, linewidth=1.6, zorder=3)
    for line, note in enumerate(notes):
        write(axes, (0.3, foot_in - 0.18 - 0.18 * line), note, 7.5, ha="left", color=FAINT)
    return Picture(figure, "How far each rank is from the plain process. " + _in_words(ranks))


def _kind(name: str) -> int:
    """Losses come before gradients, and gradients before weights, also where ranks have different layers."""
    return 0 if name == "loss" else 1 if name.startswith("gradient of ") else 2


def _tops(names: Sequence[str]) -> list[float]:
    """How far below the first row each begins, in inches: a gap parts loss, gradients and weights."""
    kinds = [_kind(name) for name in names]
    return [row * ROW_IN + len({*kinds[:row + 1]} - {kinds[0]}) * KIND_IN for row in range(len(names))]


def _cell(axes: Axes, corner: Point, width_in: float, colour: str, mark: str, ink: str) -> None:
    tile(axes, corner, (width_in, ROW_IN), colour, "white", 1.5)
    write(axes, (corner[0] + width_in / 2, corner[1] + ROW_IN / 2 - 0.01), mark, 7.5, color=ink)


def _fitting(apart: float, factor: float | None, digits: int | None, width_in: float) -> str:
    """What a box says; nothing where it has no room, among many ranks: there the colour has to do."""
    if factor is not None and text_width_in(mark := f"× {factor:.3g}", 7.5) <= width_in:
        return mark
    return "" if apart and digits is None else _mark(apart, digits)


def _mark(apart: float, digits: int | None) -> str:
    """As in 1.8, 0.18, 0.0018 and 1.8e-4; with 0 digits 2, 2e-1."""
    if not apart:
        return "="
    if digits and 1e-3 <= apart < 99.5:
        return f"{apart:#.2g}".rstrip(".")
    return "–" if math.isinf(apart) else f"{apart:.{digits}e}".replace("e-0", "e-").replace("e+0", "e").removesuffix("e0")


def _in_words(ranks: Sequence[Apart]) -> str:
    said = []
    for number, rank in enumerate(ranks):
        wrong = {name: next((step for step, apart in enumerate(values) if apart), None) for name, values in rank.items()}
        parts = [f"{name} from step {step}" for name, step in wrong.items() if step is not None]
        said.append(f"rank {number}: " + (", ".join(parts) or "agrees"))
    return "; ".join(said) + "."
