"""Ranks as processes: what goes in, what comes out, and what travels between them."""

from utils.figures.colours import FAINT, INK, PALE, rank_colour
from utils.figures.shapes import arrow, box, line, tile, write
from utils.figures.style import Picture, canvas, styled

MOST_RANKS = 6
HEIGHT_IN, MIDDLE_IN, FRAME_LEFT_IN, FRAME_RIGHT_IN = 2.0, 1.0, 3.3, 8.8
BUS_IN = 0.6  # the line that all messages take


@styled
def ranks_figure(n_ranks: int = 4) -> Picture:
    """A notebook beside its ranks: copies go in, prints, results and errors come out, messages travel between ranks.

    n_ranks: 2 to 6.  Raises: ValueError for another number.
    """
    if not 2 <= n_ranks <= MOST_RANKS:
        raise ValueError(f"can draw 2 to {MOST_RANKS} ranks, not {n_ranks}")
    figure, axes = canvas(HEIGHT_IN)
    box(axes, (1.0, MIDDLE_IN), (1.5, 0.9), "the notebook:\ncode and variables", PALE)
    width = (FRAME_RIGHT_IN - FRAME_LEFT_IN) / n_ranks
    tile(axes, (FRAME_LEFT_IN, 0.3), (FRAME_RIGHT_IN - FRAME_LEFT_IN, 1.3), "none", FAINT, 1.0, linestyle=(0, (4, 3)))
    write(axes, (FRAME_LEFT_IN, 1.78), f"one group of {n_ranks} ranks: processes, each with a memory of its own", 8.5,
          ha="left", color=FAINT)
    for rank in range(n_ranks):
        centre = FRAME_LEFT_IN + (rank + 0.5) * width
        box(axes, (centre, 1.18), (0.62 * width, 0.5), f"rank {rank}", rank_colour(rank))
        arrow(axes, (centre - 0.08, 0.93), (centre - 0.08, BUS_IN), head=8)
        arrow(axes, (centre + 0.08, BUS_IN), (centre + 0.08, 0.93), head=8)
    line(axes, (FRAME_LEFT_IN + 0.19 * width, BUS_IN), (FRAME_RIGHT_IN - 0.19 * width, BUS_IN), INK, 3.0)
    write(axes, ((FRAME_LEFT_IN + FRAME_RIGHT_IN) / 2, 0.42), "messages, from any rank to any other", 8.5)
    arrow(axes, (1.75, 1.25), (FRAME_LEFT_IN, 1.25), head=12)
    write(axes, ((1.75 + FRAME_LEFT_IN) / 2, 1.4), "copies", 8.5)
    arrow(axes, (FRAME_LEFT_IN, 0.75), (1.75, 0.75), head=12)
    write(axes, ((1.75 + FRAME_LEFT_IN) / 2, 0.6), "prints, results, errors", 8.5)
    return Picture(figure, f"A notebook and {n_ranks} ranks. Code and copies of variables go to the ranks; prints, "
                           "results and errors come back. Each rank has a memory of its own; messages travel between "
                           "any two of them.")
