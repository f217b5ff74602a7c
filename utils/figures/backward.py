"""What a rank holds of the gradients, layer by layer, while the backward pass goes on; and how several travel as one row."""

from matplotlib.axes import Axes

from utils.figures.colours import FAINT, GREY, ORANGE, ink_on, rank_colour
from utils.figures.shapes import line, tile, write
from utils.figures.style import Picture, canvas, styled

CELL_IN, ROW_IN, GAP_IN, TOP_IN, BOTTOM_IN = 0.62, 0.36, 0.08, 0.85, 0.5
LEFTS_IN = 0.3, 4.75  # of the two sides
MOST_LAYERS, MOST_RANKS = 5, 8
PIECES = (("a", 3), ("b", 1), ("c", 2))  # gradients, and how long a piece of each is
STRIP_IN, WIDE_IN, MOST_PACKED = 0.34, 8.2, 4


@styled
def gradients_figure(n_layers: int = 4, n_ranks: int = 4) -> Picture:
    """Gradients held by one rank after each layer of a backward pass: left all whole, right reduce-scattered and freed.

    The right side shows each moment just before the newest gradient is reduce-scattered. n_layers: layers of one size,
    2 to 5; n_ranks: 2 to 8.  Raises: ValueError for other numbers.
    """
    if not (2 <= n_layers <= MOST_LAYERS and 2 <= n_ranks <= MOST_RANKS):
        raise ValueError(f"can draw 2 to {MOST_LAYERS} layers on 2 to {MOST_RANKS} ranks, not {n_layers} on {n_ranks}")
    figure, axes = canvas(TOP_IN + n_layers * ROW_IN + BOTTOM_IN)
    sides = ("kept whole (data parallel, ZeRO-1)", 1.0), ("reduce-scattered at once (ZeRO-2)", 1 / n_ranks)
    for (title, kept), left_in in zip(sides, LEFTS_IN, strict=True):
        _side(axes, left_in, title, n_layers, kept)
    for x, fill, name in ((0.3, True, "gradient"), (1.5, False, "freed, or not there yet")):
        tile(axes, (x, 0.13), (0.2, 0.16), ORANGE if fill else "none", ORANGE if fill else GREY, 0.7)
        write(axes, (x + 0.28, 0.21), name, 8.5, ha="left", color=FAINT)
    write(axes, (LEFTS_IN[1], 0.21), "row by row, the backward pass goes from the last layer to the first", 8.5, ha="left",
          color=FAINT)
    return Picture(figure, f"Gradients of {n_layers} equal layers that one of {n_ranks} ranks holds in a backward pass. "
                           f"Kept whole, they add up to {n_layers} layers. Reduce-scattered as they come, a shard of "
                           f"1/{n_ranks} stays of each: at most {1 + (n_layers - 1) / n_ranks:g} layers at once.")


def _side(axes: Axes, left_in: float, title: str, n_layers: int, kept: float) -> None:
    """One row a moment, one column a layer. kept: the part of a gradient that stays when the next one has come."""
    top_in = BOTTOM_IN + n_layers * ROW_IN
    write(axes, (left_in, top_in + 0.62), title, ha="left", fontweight="bold")
    for layer in range(n_layers):
        write(axes, (left_in + (layer + 0.5) * CELL_IN, top_in + 0.2), f"layer {layer + 1}", 8)
    write(axes, (left_in + n_layers * CELL_IN + 0.12, top_in + 0.2), "layers held", 8, ha="left", color=FAINT)
    for moment in range(n_layers):
        newest, y = n_layers - 1 - moment, top_in - (moment + 1) * ROW_IN
        for layer in range(n_layers):
            corner, size = (left_in + layer * CELL_IN + GAP_IN / 2, y + GAP_IN / 2), (CELL_IN - GAP_IN, ROW_IN - GAP_IN)
            tile(axes, corner, size, edge=GREY, linewidth=0.7, linestyle=(0, (3, 2)))
            part = 0.0 if layer < newest else 1.0 if layer == newest else kept
            if part:
                tile(axes, corner, (size[0] * part, size[1]), ORANGE)
        write(axes, (left_in + n_layers * CELL_IN + 0.12, y + ROW_IN / 2), f"{1 + moment * kept:g}", ha="left")



@styled
def packed_row_figure(n_ranks: int = 3) -> Picture:
    """Three gradients in one flat buffer for a reduce-scatter: laid end to end, and sorted by the rank that a shard is for.

    n_ranks: 2 to 4.  Raises: ValueError for other numbers.
    """
    if not 2 <= n_ranks <= MOST_PACKED:
        raise ValueError(f"can draw 2 to {MOST_PACKED} ranks, not {n_ranks}")
    figure, axes = canvas(2.65)
    tensors = [(name, size, rank) for name, size in PIECES for rank in range(n_ranks)]
    _row(axes, 1.55, "end to end: each rank would get elements that belong to others", tensors, n_ranks)
    _row(axes, 0.3, "sorted by rank: each rank gets its own shards", sorted(tensors, key=lambda piece: piece[2]), n_ranks)
    return Picture(figure, f"Gradients a, b and c in one flat buffer for a reduce-scatter among {n_ranks} ranks. Laid end "
                           f"to end, the {n_ranks} equal chunks of the buffer mix shards of different ranks. Sorted by "
                           "rank, chunk r is shard r of a, of b and of c.")


def _row(axes: Axes, bottom_in: float, title: str, pieces: list[tuple[str, int, int]], n_ranks: int) -> None:
    """Pieces (name, length, rank) in the colours of their ranks, and below them which part of the row goes to whom."""
    write(axes, (0.3, bottom_in + STRIP_IN + 0.46), title, ha="left", fontweight="bold")
    unit_in, left_in = WIDE_IN / sum(size for _, size, _ in pieces), 0.3
    for name, size, rank in pieces:
        tile(axes, (left_in, bottom_in + 0.12), (size * unit_in, STRIP_IN), rank_colour(rank), "white", 1.0)
        write(axes, (left_in + size * unit_in / 2, bottom_in + 0.12 + STRIP_IN / 2), f"{name}{rank}", 8.5,
              color=ink_on(rank_colour(rank)))
        left_in += size * unit_in
    part_in = WIDE_IN / n_ranks
    for rank in range(n_ranks):
        line(axes, (0.35 + rank * part_in, bottom_in + 0.04), (0.25 + (rank + 1) * part_in, bottom_in + 0.04), GREY)
        write(axes, (0.3 + (rank + 0.5) * part_in, bottom_in - 0.1), f"part {rank}, to rank {rank}", 8.5, color=FAINT)
