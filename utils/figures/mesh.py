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
def mesh_figure(lines: Mapping[str, Sequence[Sequence[int]]], per_node: int | None = None) -> Picture:
    """A row for each axis, a column for each rank; ranks of one group have the same letter and colour.

    lines: axis → its groups, each a list of ranks, such as {"dp": [[0, 2], [1, 3]], "tp": [[0, 1], [2, 3]]}.
    per_node: the ranks of a node, if borders between nodes shall be drawn.
    Raises: ValueError without an axis, for more than 16 ranks, or unless each axis has every rank once.
    """
    n = max((len({rank for group in groups for rank in group}) for groups in lines.values()), default=0)
    if not 0 < n <= MOST_RANKS:
        raise ValueError(f"can draw 1 to {MOST_RANKS} ranks with one axis or more, not {n} ranks")
    for axis, groups in lines.items():
        if sorted(rank for group in groups for rank in group) != list(range(n)):
            raise ValueError(f"axis {axis!r} should have each of the ranks 0 to {n - 1} in one group: got {list(groups)}")
    height_in = TOP_IN + len(lines) * (ROW_IN + GAP_IN) + (0.25 if per_node else 0.1)
    figure, axes = canvas(height_in)
    ranks_in = height_in - (0.38 if per_node else 0.3)
    width_in = min(0.9, (WIDTH_IN - NAMES_IN - 0.3) / n)
    write(axes, (NAMES_IN - 0.15, ranks_in), "rank", 8.5, ha="right", color=FAINT)
    for rank in range(n):
        write(axes, (NAMES_IN + (rank + 0.5) * width_in, ranks_in), str(rank), 8.5, color=FAINT)
    for row, (axis, groups) in enumerate(lines.items()):
        _draw_axis(axes, axis, groups, ranks_in - 0.2 - (row + 1) * (ROW_IN + GAP_IN) + GAP_IN, width_in)
    for first in range(0, n, per_node) if per_node else ():
        middle, border = (NAMES_IN + place * width_in for place in (first + min(per_node, n - first) / 2, first))
        write(axes, (middle, height_in - 0.12), f"node {first // per_node}", 8.5, color=FAINT)
        if first:
            line(axes, (border, 0.05), (border, height_in - 0.05), GREY, 2.5)
    nodes = f", {per_node} in each node" if per_node else ""
    return Picture(figure, f"A mesh of {n} ranks{nodes}. " + "; ".join(
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


BOX_IN, AXIS_COLOURS = 3.0, (BLUE, VERMILLION, GREEN)
LIGHT = "#BBD9EC", "#F3CDB0", "#B5DFD1"
STEPS_IN = ((3.15, 0.0), (0.0, -1.3), (1.2, 0.6))  # from place 0 to place 1 of the first axis, the second and the third
ORIGIN_IN = (0.75, 1.75)
NAME_SIZE_IN = (1.12, 0.44)  # a rank's box


@styled
def mesh_box_figure(lines: Mapping[str, Sequence[Sequence[int]]] | None = None, rank: int = 0) -> Picture:
    """A mesh of 2 × 2 × 2 ranks as a box: an edge for each group of two, those of one rank thick and named.

    Each rank's box has its places. The four ranks at one place of the first axis are framed as a node.

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
    for node in range(2):
        (left, _), (right, top), (_, bottom) = _corner(4 * node), _corner(4 * node + 1), _corner(4 * node + 2)
        corner = left - NAME_SIZE_IN[0] / 2 - 0.1, bottom - NAME_SIZE_IN[1] / 2 - 0.1
        size = right - left + NAME_SIZE_IN[0] + 0.2, top - bottom + NAME_SIZE_IN[1] + 0.2
        tile(axes, corner, size, "#F4F4F4", "#C8C8C8", 1)
        write(axes, (corner[0] + 0.1, corner[1] + size[1] - 0.16), f"node {node}", 9, ha="left", color=FAINT)
    for groups, look in zip(lines.values(), zip(AXIS_COLOURS, LIGHT, strict=True), strict=True):
        for group in groups:
            line(axes, _corner(group[0]), _corner(group[1]), look[rank not in group], 5 if rank in group else 2)
    for one in range(8):
        places = " · ".join(f"{name} {place}" for name, place in zip(names, _places(one), strict=True))
        x, y = _corner(one)
        box(axes, (x, y), NAME_SIZE_IN, "", "#FFE9A8" if one == rank else "white", "black" if one == rank else GREY)
        write(axes, (x, y + 0.09), f"rank {one}", 9)
        write(axes, (x, y - 0.1), places, 7.5)
    for row, ((name, groups), colour) in enumerate(zip(lines.items(), AXIS_COLOURS, strict=True)):
        (own,) = (group for group in groups if rank in group)
        high_in = BOX_IN - 0.75 - 0.4 * row
        line(axes, (6.5, high_in), (6.85, high_in), colour, 5)
        write(axes, (7.0, high_in), f"along {name}: ranks {own[0]} and {own[1]}", 9.5, ha="left")
    write(axes, (6.5, BOX_IN - 0.35), f"rank {rank}'s groups", 10, ha="left", fontweight="bold")
    return Picture(figure, "A mesh of 2 × 2 × 2 ranks as a box, ranks 0 to 3 in one node and 4 to 7 in another. "
                   f"Rank {rank}'s groups: " + ", ".join(
        f"along {name} " + " and ".join(map(str, next(group for group in groups if rank in group)))
        for name, groups in lines.items()) + ".")


def _places(rank: int) -> tuple[int, int, int]:
    return rank // 4, rank // 2 % 2, rank % 2


def _corner(rank: int) -> tuple[float, float]:
    """Where a rank stands, in inches."""
    steps = list(zip(_places(rank), STEPS_IN, strict=True))
    return tuple(ORIGIN_IN[i] + sum(place * step[i] for place, step in steps) for i in (0, 1))
