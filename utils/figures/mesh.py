"""A mesh of ranks: for each axis, who is in a group with whom."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from utils.figures.colours import BLUE, FAINT, GREEN, GREY, VERMILLION, ink_on, rank_colour
from utils.figures.shapes import box, line, tile, write
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


BOX_IN, AXIS_COLOURS = 2.95, (BLUE, VERMILLION, GREEN)
LIGHT = "#BBD9EC", "#F3CDB0", "#B5DFD1"
STEPS_IN = ((3.0, 0.0), (0.0, -1.35), (1.15, 0.6))  # from place 0 to place 1 of the first axis, the second and the third
ORIGIN_IN = (1.0, 1.95)


@styled
def mesh_box_figure(lines: Mapping[str, Sequence[Sequence[int]]] | None = None, rank: int = 0) -> Picture:
    """A mesh of 2 × 2 × 2 ranks as a box: an edge for each group of two, those of one rank thick and named.

    lines: three axes → the groups along each, the outermost first; None for those of dp, pp and tp. Ranks stand where the
    last axis varies fastest.
    Raises: ValueError unless there are three axes, each with the ranks 0 to 7 in four groups of two, and `rank` is one.
    """
    lines = lines or {axis: [[one, one + stride] for one in range(8) if not one & stride]
                      for axis, stride in (("dp", 4), ("pp", 2), ("tp", 1))}
    if len(lines) != 3 or rank not in range(8) or any(
            {len(group) for group in groups} != {2} or sorted(one for group in groups for one in group) != list(range(8))
            for groups in lines.values()):
        raise ValueError(f"can draw 2 × 2 × 2 ranks, one of them marked, not rank {rank} of {dict(lines)}")
    figure, axes = canvas(BOX_IN)
    names = list(lines)
    for groups, look in zip(lines.values(), zip(AXIS_COLOURS, LIGHT, strict=True), strict=True):
        for group in groups:
            line(axes, _corner(group[0]), _corner(group[1]), look[rank not in group], 5 if rank in group else 2)
    for one in range(8):
        box(axes, _corner(one), (0.72, 0.36), f"rank {one}", "#FFE9A8" if one == rank else "white",
            "black" if one == rank else GREY)
    for row, ((name, groups), colour) in enumerate(zip(lines.items(), AXIS_COLOURS, strict=True)):
        (own,) = (group for group in groups if rank in group)
        high_in = BOX_IN - 0.75 - 0.4 * row
        line(axes, (6.5, high_in), (6.85, high_in), colour, 5)
        write(axes, (7.0, high_in), f"along {name}: ranks {own[0]} and {own[1]}", 9.5, ha="left")
    write(axes, (6.5, BOX_IN - 0.35), f"rank {rank}'s groups", 10, ha="left", fontweight="bold")
    for place in range(2):
        write(axes, (_corner(4 * place)[0] + 0.55, 0.2), f"{names[0]} {place}", 9, color=FAINT)
        write(axes, (0.2, _corner(2 * place)[1]), f"{names[1]} {place}", 9, ha="left", color=FAINT)
        write(axes, (_corner(4 + place)[0] + 0.42, _corner(6 + place)[1] - 0.02), f"{names[2]} {place}", 9, ha="left",
              color=FAINT)
    return Picture(figure, f"A mesh of 2 × 2 × 2 ranks as a box. Rank {rank}'s groups: " + ", ".join(
        f"along {name} " + " and ".join(map(str, next(group for group in groups if rank in group)))
        for name, groups in lines.items()) + ".")


def _corner(rank: int) -> tuple[float, float]:
    """Where a rank stands, in inches."""
    places = rank // 4, rank // 2 % 2, rank % 2
    return tuple(ORIGIN_IN[i] + sum(place * step[i] for place, step in zip(places, STEPS_IN, strict=True)) for i in (0, 1))
