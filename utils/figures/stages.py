"""A model cut by depth: which rank has which layers, and what crosses from neighbour to neighbour."""

from collections.abc import Sequence
from itertools import accumulate

from matplotlib.axes import Axes

from utils.figures.colours import FAINT, GREY, STAGE_COLOURS
from utils.figures.shapes import arrow, line, tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, first_that_fits, styled

HEIGHT_IN, ENDS_IN, GAP_IN, MOST_RANKS = 3.1, 0.72, 0.9, 4
MODEL_Y, LAYER_IN = 2.42, 0.3  # of the row of all layers: its lower edge and its height
TOP_Y, BOTTOM_Y, LAYERS_Y = 1.78, 0.2, 1.1  # of a rank's frame, and of the layers in it
KEPT = "parameters\ngradients\noptimizer state"


@styled
def stages_figure(sizes: Sequence[int]) -> Picture:
    """The layers of a model in a row, and below them the ranks that have them.

    sizes: how many layers each stage has, such as [2, 2, 2, 2].
    Raises: ValueError for fewer than 2 stages, more than can be drawn side by side, or a stage without layers.
    """
    if not 2 <= len(sizes) <= MOST_RANKS or min(sizes) < 1:
        raise ValueError(f"can draw 2 to {MOST_RANKS} stages of one layer or more, not {list(sizes)}")
    figure, axes = canvas(HEIGHT_IN)
    n = len(sizes)
    frame_in = (WIDTH_IN - 2 * ENDS_IN - (n - 1) * GAP_IN) / n
    layer_in = (WIDTH_IN - 2 * ENDS_IN) / sum(sizes)
    write(axes, (ENDS_IN, MODEL_Y + LAYER_IN + 0.17), "the model's layers, in order", 8.5, ha="left", color=FAINT)
    for rank, (end, size) in enumerate(zip(accumulate(sizes), sizes, strict=True)):
        first = end - size
        left = ENDS_IN + rank * (frame_in + GAP_IN)
        _layers(axes, rank, range(first, first + size), (ENDS_IN + first * layer_in, MODEL_Y), layer_in)
        for place, corner in ((first, left), (end, left + frame_in)):  # from both ends of its layers to its frame
            line(axes, (ENDS_IN + place * layer_in, MODEL_Y), (corner, TOP_Y), GREY, 1)
        _rank(axes, rank, range(first, first + size), left, frame_in)
    _messages(axes, n, frame_in)
    shares = ", ".join(f"rank {rank} has {size} of them" for rank, size in enumerate(sizes))
    return Picture(figure, f"A model of {sum(sizes)} layers cut by depth: {shares}, with their parameters, gradients and "
                           "optimizer state. Activations go from each rank to the next, their gradients back; rank 0 gets "
                           "the batch, the last rank computes the loss.")


def _rank(axes: Axes, rank: int, layers: range, left: float, width: float) -> None:
    """A rank's frame: its layers, and what it keeps of them."""
    tile(axes, (left, BOTTOM_Y), (width, TOP_Y - BOTTOM_Y), "white", GREY, 1)
    write(axes, (left + width / 2, TOP_Y - 0.17), f"rank {rank}, stage {rank}", 8.5, fontweight="bold")
    _layers(axes, rank, layers, (left + 0.1, LAYERS_Y), (width - 0.2) / len(layers))
    write(axes, (left + width / 2, (LAYERS_Y + BOTTOM_Y) / 2), KEPT, 8, linespacing=1.25)


def _layers(axes: Axes, rank: int, layers: range, corner: tuple[float, float], width: float) -> None:
    """Layers side by side in the colour of their rank."""
    for place, layer in enumerate(layers):
        tile(axes, (corner[0] + place * width, corner[1]), (width, LAYER_IN), STAGE_COLOURS[rank], "white", 1.2)
        number = first_that_fits([str(layer)], width - 0.06, 8.5)
        write(axes, (corner[0] + (place + 0.5) * width, corner[1] + LAYER_IN / 2), number, 8.5)


def _messages(axes: Axes, n: int, frame_in: float) -> None:
    """Arrows between neighbours, and at both ends of the line."""
    forward_y, backward_y = LAYERS_Y + LAYER_IN / 2, BOTTOM_Y + 0.3
    for rank in range(n - 1):
        left = ENDS_IN + rank * (frame_in + GAP_IN) + frame_in
        arrow(axes, (left, forward_y), (left + GAP_IN, forward_y))
        write(axes, (left + GAP_IN / 2, forward_y + 0.13), "activations", 8)
        arrow(axes, (left + GAP_IN, backward_y), (left, backward_y))
        write(axes, (left + GAP_IN / 2, backward_y + 0.2), "their\ngradients", 8, linespacing=1.1)
    for x, text in ((0.0, "batch"), (WIDTH_IN - ENDS_IN, "loss")):
        arrow(axes, (x + 0.08, forward_y), (x + ENDS_IN, forward_y) if text == "batch" else (x + 0.4, forward_y))
        write(axes, (x + 0.33, forward_y + 0.13), text, 8)
