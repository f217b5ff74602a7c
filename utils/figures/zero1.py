"""A step of ZeRO-1: what each rank holds before and after the reduce-scatter, the update and the all-gather."""

from collections.abc import Callable, Collection

from matplotlib.axes import Axes

from utils.figures.collectives import MOST_RANKS
from utils.figures.colours import FAINT, GREY, INK, PALE
from utils.figures.shapes import arrow, box, cell, line, write
from utils.figures.style import Picture, canvas, first_that_fits, styled

LEFT_IN, ROW_IN, CELL_IN, HEAD_IN, FOOT_IN = 0.65, 0.46, 0.3, 0.72, 0.42
BLOCK_IN, GAPS_IN = 1.4, (0.96, 0.86, 0.78)  # a row of chunks, and the room for the arrows between them
HEADS = ("own gradient", "mean gradient, own shard", "new values, own shard", "all parameters, new")
LABEL = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "boxstyle": "round,pad=0.1"}  # on a cell of many colours
Held = Callable[[int, int], Collection[int] | None]  # (rank, chunk) → the ranks it comes from, None where it is not held


@styled
def zero1_step_figure(n_ranks: int = 4) -> Picture:
    """One row a rank: its gradient, the mean gradient of its shard, the updated shard, all parameters; the steps between.

    Raises: ValueError for another number of ranks than 2 to 8.
    """
    if not 2 <= n_ranks <= MOST_RANKS:
        raise ValueError(f"n_ranks must be from 2 to {MOST_RANKS} to be readable; got {n_ranks}")
    figure, axes = canvas(HEAD_IN + n_ranks * ROW_IN + FOOT_IN)
    everyone = range(n_ranks)
    stages: list[tuple[str, Held]] = [
        ("g", lambda rank, chunk: [rank]), ("ḡ", lambda rank, chunk: everyone if chunk == rank else None),
        ("p", lambda rank, chunk: [rank] if chunk == rank else None), ("p", lambda rank, chunk: [chunk])]
    x = LEFT_IN
    for number, (letter, held) in enumerate(stages):
        write(axes, (x + BLOCK_IN / 2, axes.get_ylim()[1] - 0.52), HEADS[number], 8.5)
        for rank in everyone:
            for chunk in everyone:
                ranks, width, label = held(rank, chunk) or (), BLOCK_IN / n_ranks, (f"{letter}{chunk}",)
                cell(axes, (x + chunk * width, _middle(axes, rank) - CELL_IN / 2), (width, CELL_IN), ranks,
                     label if len(ranks) == 1 else (), 8)
                if len(ranks) > 1:
                    write(axes, (x + (chunk + 0.5) * width, _middle(axes, rank)), first_that_fits(label, width - 0.06, 8), 8,
                          zorder=7, bbox=LABEL)
        x += BLOCK_IN + (*GAPS_IN, 0)[number]
    _steps(axes, n_ranks)
    for rank in everyone:
        write(axes, (LEFT_IN - 0.08, _middle(axes, rank)), f"rank {rank}", 8.5, ha="right")
    write(axes, (LEFT_IN, 0.2), "colour of g: the rank that computed it · all colours: the mean over ranks, ḡ · colour of "
                                "p: the rank that updates it", 8.5, ha="left", color=FAINT)
    return Picture(figure, f"A step of ZeRO-1 on {n_ranks} ranks. Each has a whole gradient of its own rows; reduce-scatter"
                           ": rank r has shard r of the sum, and divides it to get the mean; AdamW, with old values and "
                           "state of shard r alone, updates shard r of the parameters; all-gather: every rank has all "
                           "parameters.")


def _middle(axes: Axes, rank: int) -> float:
    return axes.get_ylim()[1] - HEAD_IN - (rank + 0.5) * ROW_IN


def _steps(axes: Axes, n_ranks: int) -> None:
    """Two collectives, which join all ranks, and between them the update, which each rank does for itself."""
    x = LEFT_IN + BLOCK_IN
    for name, gap in zip((f"reduce-scatter, ÷ {n_ranks}", "AdamW", "all-gather"), GAPS_IN, strict=True):
        write(axes, (x + gap / 2, axes.get_ylim()[1] - 0.2), name, 9, fontweight="bold")
        if name == "AdamW":
            for rank in range(n_ranks):
                y = _middle(axes, rank)
                line(axes, (x + 0.05, y), (x + gap / 2, y), INK)
                box(axes, (x + gap / 2, y), (0.5, 0.36), f"old p{rank},\nstate", PALE, GREY)
                arrow(axes, (x + gap / 2 + 0.25, y), (x + gap - 0.02, y))
        else:
            middle = (_middle(axes, 0) + _middle(axes, n_ranks - 1)) / 2
            arrow(axes, (x + 0.1, middle), (x + gap - 0.1, middle), head=14, width=2)
        x += gap + BLOCK_IN
