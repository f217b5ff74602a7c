"""The few shapes that the schematic drawings share: boxes with text, cells striped by contributing rank, arrows."""

from collections.abc import Collection

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle

from utils.figures.style import FAINT, GREY, INK, PALE, first_that_fits, ink_on

# One colour a rank, light enough for black text; the first eight are told apart by colour-blind eyes.
RANK_COLOURS = ("#7FC4EE", "#F2BB4A", "#5CC4A4", "#DFA3C4", "#F0E442", "#E88D5A", "#A9B8E8", "#949494")

Point = tuple[float, float]


def rank_colour(rank: int) -> str:
    """The colour of what came from `rank`."""
    return RANK_COLOURS[rank % len(RANK_COLOURS)]


def box(axes: Axes, centre: Point, size: Point, text: str = "", colour: str = "white", edge: str = INK,
        fontsize: float = 8.5, linewidth: float = 1.0) -> None:
    """A rounded box with text in its middle. centre, size: in the units of the axes."""
    (x, y), (width, height) = centre, size
    axes.add_artist(FancyBboxPatch((x - width / 2, y - height / 2), width, height, facecolor=colour, edgecolor=edge,
                                  boxstyle="round,pad=0,rounding_size=0.06", linewidth=linewidth, zorder=2))
    axes.text(x, y, text, ha="center", va="center", fontsize=fontsize, color=ink_on(colour), zorder=3)


def line(axes: Axes, start: Point, end: Point, colour: str = INK, width: float = 1.5, dashed: bool = False) -> None:
    """A straight line below the boxes."""
    axes.plot([start[0], end[0]], [start[1], end[1]], color=colour, linewidth=width, zorder=1, solid_capstyle="butt",
              linestyle=(0, (4, 2)) if dashed else "-")


def arrow(axes: Axes, start: Point, end: Point, colour: str = INK, width: float = 1.5, bend: float = 0.0,
          head: float = 10.0, shrink: float = 2.0, ends: tuple[Patch | None, Patch | None] = (None, None)) -> None:
    """An arrow from start to end. bend: curvature (0 is straight); head, shrink: points; ends: shapes to stop at."""
    axes.add_artist(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=head, color=colour, linewidth=width,
                                   connectionstyle=f"arc3,rad={bend}", shrinkA=shrink, shrinkB=shrink, zorder=4,
                                   patchA=ends[0], patchB=ends[1]))


def cell(axes: Axes, corner: Point, size: Point, ranks: Collection[int], labels: tuple[str, ...] = (),
         fontsize: float = 8.5, frame: str = "white", frame_width: float = 1.0, faded: bool = False) -> None:
    """A chunk of data, striped in the colours of the ranks that contributed to it; dashed and empty without any.

    corner: lower left; size: width and height, in inches (one unit of the axes); labels: the first that fits is shown.
    """
    (x, y), (width, height) = corner, size
    if not ranks:
        axes.add_artist(Rectangle(corner, width, height, facecolor="none", edgecolor=GREY, linewidth=0.7,
                                 linestyle=(0, (3, 2)), zorder=1))
    alpha = 0.3 if faded else 1.0
    for i, rank in enumerate(sorted(ranks)):
        stripe = width / len(ranks)
        axes.add_artist(Rectangle((x + i * stripe, y), stripe, height, facecolor=rank_colour(rank), linewidth=0,
                                 alpha=alpha, zorder=2))
    if ranks:
        axes.add_artist(Rectangle(corner, width, height, facecolor="none", edgecolor=frame, linewidth=frame_width,
                                 zorder=3 if frame == "white" else 5))
    text = first_that_fits(labels, width - 0.06, fontsize)
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=fontsize, zorder=6,
              color=FAINT if faded else INK)


def slots(axes: Axes, corner: Point, size: Point, ranks: Collection[int], n_ranks: int, faded: bool = False,
          frame: str = "white", frame_width: float = 1.0) -> None:
    """A chunk as a row of n_ranks slots, the slot of each contributing rank filled in that rank's colour."""
    (x, y), (width, height) = corner, size
    axes.add_artist(Rectangle(corner, width, height, facecolor=PALE if not faded else "#F5F5F5", linewidth=0, zorder=1))
    for rank in ranks:
        axes.add_artist(Rectangle((x + rank * width / n_ranks, y), width / n_ranks, height, linewidth=0,
                                 facecolor=rank_colour(rank), alpha=0.3 if faded else 1.0, zorder=2))
    axes.add_artist(Rectangle(corner, width, height, facecolor="none", edgecolor=frame, linewidth=frame_width,
                             zorder=3 if frame == "white" else 5))
