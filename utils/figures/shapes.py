"""The few shapes that drawings share: boxes with text, cells striped by contributing rank, arrows, rows of bars."""

import functools
from collections.abc import Collection, Sequence

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from utils.figures.colours import BLACK, GREY, INK, PALE, ink_on, rank_colour
from utils.figures.style import first_that_fits

Point = tuple[float, float]
Colour = str | tuple[float, float, float]


def write(axes: Axes, centre: Point, text: str, fontsize: float = 9.5, **look) -> None:
    """Text around a point."""
    axes.text(*centre, text, fontsize=fontsize, **{"ha": "center", "va": "center"} | look)


def heading(axes: Axes, text: str) -> None:
    """The title of a canvas."""
    write(axes, (0.25, axes.get_ylim()[1] - 0.22), text, 10.5, ha="left", fontweight="bold")


def tile(axes: Axes, corner: Point, size: Point, colour: str = "none", edge: str = "none", linewidth: float = 0.0,
         **look) -> Rectangle:
    """A rectangle. corner: lower left; size: width and height, in the units of the axes."""
    return axes.add_artist(Rectangle(corner, *size, facecolor=colour, edgecolor=edge, linewidth=linewidth, **look))


def tiles(axes: Axes, placed: Sequence[tuple[Point, Point, Colour]], **look) -> None:
    """Many rectangles, (corner, size, colour) each, drawn several times as fast as one by one. look: of them all."""
    corners = [[(x, y), (x + wide, y), (x + wide, y + high), (x, y + high)] for (x, y), (wide, high), _ in placed]
    axes.add_collection(PolyCollection(corners, facecolors=[colour for *_, colour in placed], **look), autolim=False)


def texts(axes: Axes, placed: Sequence[tuple[Point, str, Colour]], fontsize: float, zorder: float = 3) -> None:
    """Many short texts, (centre, text, colour) each, drawn several times as fast as one by one."""
    points = Affine2D().scale(1 / 72) + axes.figure.dpi_scale_trans
    axes.add_collection(PathCollection([_centred(text, fontsize) for _, text, _ in placed], linewidths=0, zorder=zorder,
                                       offsets=[centre for centre, *_ in placed], offset_transform=axes.transData,
                                       transform=points, facecolors=[colour for *_, colour in placed]), autolim=False)


@functools.lru_cache(maxsize=1024)
def _centred(text: str, fontsize: float) -> Path:
    """The letters' outline, its middle at the origin; as high as a digit, whatever the letters."""
    path = TextPath((0, 0), text, size=fontsize)
    bounds = path.get_extents()
    return path.transformed(Affine2D().translate(-bounds.x0 - bounds.width / 2, -0.36 * fontsize))


def box(axes: Axes, centre: Point, size: Point, text: str = "", colour: str = "white", edge: str = INK,
        rounding: float = 0.06, zorder: float = 2) -> None:
    """A rounded box with text in its middle. centre, size: in the units of the axes."""
    (x, y), (width, height) = centre, size
    axes.add_artist(FancyBboxPatch((x - width / 2, y - height / 2), width, height, facecolor=colour, edgecolor=edge,
                                  boxstyle=f"round,pad=0,rounding_size={rounding}", linewidth=1, zorder=zorder))
    write(axes, centre, text, 8.5, color=ink_on(colour), zorder=3)


def line(axes: Axes, start: Point, end: Point, colour: str, width: float = 1.5) -> None:
    """A straight line below the boxes."""
    axes.plot(*zip(start, end, strict=True), color=colour, linewidth=width, zorder=1, solid_capstyle="butt")


def arrow(axes: Axes, start: Point, end: Point, colour: str = INK, width: float = 1.5, bend: float = 0.0,
          head: float = 10.0, shrink: float = 2.0, ends: tuple[Patch | None, Patch | None] = (None, None)) -> None:
    """An arrow from start to end. bend: curvature (0 is straight); head, shrink: points; ends: shapes to stop at."""
    axes.add_artist(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=head, color=colour, linewidth=width,
                                   connectionstyle=f"arc3,rad={bend}", shrinkA=shrink, shrinkB=shrink, zorder=4,
                                   patchA=ends[0], patchB=ends[1]))


def cell(axes: Axes, corner: Point, size: Point, ranks: Collection[int], labels: tuple[str, ...], fontsize: float) -> None:
    """A chunk of data, striped in the colours of the ranks that contributed to it; dashed and empty without any.

    corner: lower left; size: width and height, in inches (one unit of the axes); labels: the first that fits is shown.
    """
    (x, y), (width, height) = corner, size
    stripe = width / max(1, len(ranks))
    for i, rank in enumerate(sorted(ranks)):
        tile(axes, (x + i * stripe, y), (stripe, height), rank_colour(rank), zorder=2)
    if ranks:
        tile(axes, corner, size, edge="white", linewidth=1, zorder=3)
    else:
        tile(axes, corner, size, edge=GREY, linewidth=0.7, linestyle=(0, (3, 2)), zorder=1)
    write(axes, (x + width / 2, y + height / 2), first_that_fits(labels, width - 0.06, fontsize), fontsize, zorder=6)


def slots(axes: Axes, corner: Point, size: Point, ranks: Collection[int], n_ranks: int, faded: bool,
          framed: bool) -> None:
    """A chunk as a row of n_ranks slots, the slot of each contributing rank filled in that rank's colour."""
    (x, y), (width, height) = corner, size
    tile(axes, corner, size, "#F5F5F5" if faded else PALE, zorder=1)
    for rank in ranks:
        tile(axes, (x + rank * width / n_ranks, y), (width / n_ranks, height), rank_colour(rank),
             alpha=0.3 if faded else 1.0, zorder=2)
    tile(axes, corner, size, edge=BLACK if framed else "white", linewidth=1.7 if framed else 1.1, zorder=5 if framed else 3)


def bar(axes: Axes, row: int, extent: Point, colour: str, text: str, fontsize: float, height: float,
        edge: float = 0.5) -> None:
    """A horizontal bar from one x to another, with text in its middle and a white edge so many points wide."""
    left, right = extent
    axes.barh(row, right - left, left=left, height=height, color=colour, edgecolor="white", linewidth=edge)
    write(axes, ((left + right) / 2, row), text, fontsize, va="center_baseline", color=ink_on(colour),
          bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.5})  # a line of a limit passes behind it


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Rows 0, 1, … from top to bottom, a name beside each."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
