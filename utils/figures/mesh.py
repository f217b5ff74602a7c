"""A mesh of ranks: for each axis, who is in a group with whom."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from utils.figures.colours import FAINT, ink_on, rank_colour
from utils.figures.shapes import tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, styled

ROW_IN, GAP_IN, NAMES_IN, TOP_IN = 0.36, 0.14, 0.95, 0.5
MOST_RANKS = 16
LETTERS = "abcdefghijklmnop"


@styled
def mesh_figure(lines: Mapping[str, Sequence[Sequence[int]]]) -> Picture:
    """A row for each axis, a column for each rank; ranks of one group have the same letter and colour.

    lines: axis → its groups, each a list of ranks, such as {"dp": [[0, 2], [1, 3]], "tp": [[0, 1], [2, 3]]}.
    Raises: ValueError without an axis, for more than 16 ranks, or unless each axis has every rank once.
    """
    n = max((len({rank for group in groups for rank in group}) for groups in lines.values()), default=0)
    if not 0 < n <= MOST_RANKS:
        raise ValueError(f"can draw 1 to {MOST_RANKS} ranks with one axis or more, not {n} ranks")
    for axis, groups in lines.items():
        if sorted(rank for group in groups for rank in group) != list(range(n)):
            raise ValueError(f"axis {axis!r} should have each of the ranks 0 to {n - 1} in one group: got {list(groups)}")
    height_in = TOP_IN + len(lines) * (ROW_IN + GAP_IN) + 0.1
    figure, axes = canvas(height_in)
    width_in = min(0.9, (WIDTH_IN - NAMES_IN - 0.3) / n)
    write(axes, (NAMES_IN - 0.15, height_in - 0.3), "rank", 8.5, ha="right", color=FAINT)
    for rank in range(n):
        write(axes, (NAMES_IN + (rank + 0.5) * width_in, height_in - 0.3), str(rank), 8.5, color=FAINT)
    for row, (axis, groups) in enumerate(lines.items()):
        _draw_axis(axes, axis, groups, height_in - TOP_IN - (row + 1) * (ROW_IN + GAP_IN) + GAP_IN, width_in)
    return Picture(figure, f"A mesh of {n} ranks. " + "; ".join(
        f"along {axis} the groups are " + ", ".join(str(tuple(group)) for group in groups)
        for axis, groups in lines.items()) + ".")


def _draw_axis(axes: Axes, name: str, groups: Sequence[Sequence[int]], bottom_in: float, width_in: float) -> None:
    write(axes, (NAMES_IN - 0.15, bottom_in + ROW_IN / 2), f"along {name}", 9, ha="right")
    for number, group in enumerate(groups):
        colour = rank_colour(number)
        for rank in group:
            tile(axes, (NAMES_IN + rank * width_in, bottom_in), (width_in, ROW_IN), colour, "white", 1.5)
            write(axes, (NAMES_IN + (rank + 0.5) * width_in, bottom_in + ROW_IN / 2), LETTERS[number], 9,
                  color=ink_on(colour))
