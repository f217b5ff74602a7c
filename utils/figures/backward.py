"""What a rank holds of the gradients, weight by weight, in a backward pass; and how several travel in one flat buffer."""

from matplotlib.axes import Axes

from utils.figures.colours import BLACK, FAINT, GREY, ORANGE, ink_on, rank_colour
from utils.figures.shapes import arrow, line, tile, write
from utils.figures.style import Picture, canvas, styled

CELL_IN, ROW_IN, GAP_IN, END_IN, TOP_IN, BOTTOM_IN = 0.62, 0.36, 0.08, 0.08, 0.85, 0.5
LEFTS_IN = 0.55, 4.5  # of the two sides
MOST_WEIGHTS, MOST_RANKS = 4, 8
SHARDS = (("a", 3), ("b", 1), ("c", 2))  # gradients, and how long a shard of each is
STRIP_IN, WIDE_IN, MOST_PACKED = 0.34, 8.2, 4
DASHED = (0, (3, 2))
COPY = {"edge": ORANGE, "hatch": "////"}


@styled
def gradients_figure(n_weights: int = 4, n_ranks: int = 4) -> Picture:
    """Gradients held by one rank at each weight of a backward pass: left all whole, right reduce-scattered and freed.

    The right side shows the moment when the newest gradient, the flat copy of it and its new shard are all held. The last
    row is the end of the pass. n_weights: of one size, 2 to 4; n_ranks: 2 to 8.  Raises: ValueError for other numbers.
    """
    if not (2 <= n_weights <= MOST_WEIGHTS and 2 <= n_ranks <= MOST_RANKS):
        raise ValueError(f"can draw 2 to {MOST_WEIGHTS} weights on 2 to {MOST_RANKS} ranks, not {n_weights} on {n_ranks}")
    top_in = BOTTOM_IN + (n_weights + 1) * ROW_IN + END_IN
    figure, axes = canvas(top_in + TOP_IN)
    sides = ("kept whole (data parallel, ZeRO-1)", 1.0), ("reduce-scattered at once (ZeRO-2)", 1 / n_ranks)
    for (title, kept), left_in in zip(sides, LEFTS_IN, strict=True):
        _side(axes, left_in, top_in, title, n_weights, kept)
        arrow(axes, (left_in - 0.15, top_in), (left_in - 0.15, BOTTOM_IN), FAINT, 1.2, shrink=0)
        write(axes, (left_in - 0.15, top_in + 0.2), "time", 8, color=FAINT)
        write(axes, (left_in - 0.25, BOTTOM_IN + ROW_IN / 2), "end", 8, ha="right", color=FAINT)
    for x, look, name in ((0.5, {"colour": ORANGE}, "gradient, or its shard"), (2.6, COPY, "flat copy, being sent"),
                          (4.7, {"edge": GREY, "linestyle": DASHED}, "freed, or not there yet")):
        tile(axes, (x, 0.13), (0.2, 0.16), linewidth=0.7, **look)
        write(axes, (x + 0.28, 0.21), name, 8.5, ha="left", color=FAINT)
    return Picture(figure, f"Gradients of {n_weights} equal weights that one of {n_ranks} ranks holds in a backward pass, "
                           f"from the last weight to the first. Kept whole, they are {n_weights} gradients. "
                           f"Reduce-scattered as they come, a shard of 1/{n_ranks} stays of each: with the newest "
                           f"gradient and its flat copy at most {2 + n_weights / n_ranks:g} gradients at once, and "
                           f"{n_weights / n_ranks:g} in the end.")


def _side(axes: Axes, left_in: float, top_in: float, title: str, n_weights: int, kept: float) -> None:
    """One row a moment, one column a weight; with shards, also for the copy and the new shard. kept: what stays of one."""
    names = [f"weight {weight + 1}" for weight in range(n_weights)] + ["copy", "new shard"] * (kept < 1)
    write(axes, (left_in, top_in + 0.62), title, ha="left", fontweight="bold")
    for column, name in enumerate([*names, "sum"]):
        write(axes, (left_in + (column + 0.5) * CELL_IN, top_in + 0.2), name, 8, color=FAINT if name == "sum" else BLACK)
    for moment in range(n_weights + 1):
        newest, ended = n_weights - 1 - moment, moment == n_weights
        y = top_in - (moment + 1) * ROW_IN - END_IN * ended
        parts = [0.0 if weight < newest else 1.0 if weight == newest else kept for weight in range(n_weights)]
        parts += [0.0 if ended else 1.0, 0.0 if ended else kept] * (kept < 1)
        for column, part in enumerate(parts):
            corner, size = (left_in + column * CELL_IN + GAP_IN / 2, y + GAP_IN / 2), (CELL_IN - GAP_IN, ROW_IN - GAP_IN)
            tile(axes, corner, size, edge=GREY, linewidth=0.7, linestyle=DASHED)
            if part:
                tile(axes, corner, (size[0] * part, size[1]), **(COPY if names[column] == "copy" else {"colour": ORANGE}))
        write(axes, (left_in + (len(parts) + 0.5) * CELL_IN, y + ROW_IN / 2), f"{sum(parts):g}")


@styled
def packed_row_figure(n_ranks: int = 3) -> Picture:
    """Three gradients in one flat buffer for a reduce-scatter: laid end to end, and sorted by the rank that a shard is for.

    n_ranks: 2 to 4.  Raises: ValueError for other numbers.
    """
    if not 2 <= n_ranks <= MOST_PACKED:
        raise ValueError(f"can draw 2 to {MOST_PACKED} ranks, not {n_ranks}")
    figure, axes = canvas(2.65)
    tensors = [(name, size, rank) for name, size in SHARDS for rank in range(n_ranks)]
    _row(axes, 1.55, "end to end: each rank would get elements that belong to others", tensors, n_ranks)
    _row(axes, 0.3, "sorted by rank: each rank gets its own shards", sorted(tensors, key=lambda shard: shard[2]), n_ranks)
    return Picture(figure, f"Gradients a, b and c in one flat buffer for a reduce-scatter among {n_ranks} ranks. Laid end "
                           f"to end, the {n_ranks} equal chunks of the buffer mix shards of different ranks. Sorted by "
                           "rank, chunk r is shard r of a, of b and of c.")


def _row(axes: Axes, bottom_in: float, title: str, shards: list[tuple[str, int, int]], n_ranks: int) -> None:
    """Shards (name, length, rank) in the colours of their ranks, and below them which chunk of the buffer goes to whom."""
    write(axes, (0.3, bottom_in + STRIP_IN + 0.46), title, ha="left", fontweight="bold")
    unit_in, left_in = WIDE_IN / sum(size for _, size, _ in shards), 0.3
    for name, size, rank in shards:
        tile(axes, (left_in, bottom_in + 0.12), (size * unit_in, STRIP_IN), rank_colour(rank), "white", 1.0)
        write(axes, (left_in + size * unit_in / 2, bottom_in + 0.12 + STRIP_IN / 2), f"{name}{rank}", 8.5,
              color=ink_on(rank_colour(rank)))
        left_in += size * unit_in
    part_in = WIDE_IN / n_ranks
    for rank in range(n_ranks):
        line(axes, (0.35 + rank * part_in, bottom_in + 0.04), (0.25 + (rank + 1) * part_in, bottom_in + 0.04), GREY)
        write(axes, (0.3 + (rank + 0.5) * part_in, bottom_in - 0.1), f"chunk {rank}, to rank {rank}", 8.5, color=FAINT)
