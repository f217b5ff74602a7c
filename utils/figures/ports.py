"""The ports of a node that a group can use, by how many of the node's devices belong to it."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from utils.figures.colours import BLUE, FAINT, GREY, INK, ORANGE, PALE
from utils.figures.shapes import arrow, box, heading, line, write
from utils.figures.style import WIDTH_IN, Picture, canvas, styled

DEVICES = 8
NODE_Y, PORT_Y, GPU_Y, NVLINK_Y, WORDS_Y = 1.46, 2.0, 1.47, 0.92, 0.22
LEFT_IN, GAP_IN, STEP_IN, BOX_IN, RING_IN = 0.55, 0.2, 0.29, 0.24, 0.08
PORT_FILL, GPU_FILL, SWITCH_FILL, WORDS = "#F3B34C", "#9CCBEA", "#EFEFEF", "#8A5F00"


@styled
def ports_figure(ranks: Sequence[int] = (1, 2, 8), port_GBps: float = 25) -> Picture:
    """A node of 8 GPUs with a port each, once for each number of ranks that a data-parallel group has in it.

    ranks: up to three numbers that divide 8; tp is 8 over the number.
    Raises: ValueError for other numbers.
    """
    if not 1 <= len(ranks) <= 3 or any(count not in (1, 2, 4, 8) for count in ranks):
        raise ValueError(f"ports_figure needs one to three numbers of ranks, each 1, 2, 4 or 8; got {list(ranks)}")
    figure, axes = canvas(2.95)
    heading(axes, "The ports that one dp group can use in a node")
    for y, name in ((PORT_Y, "ports"), (GPU_Y, "GPUs")):
        write(axes, (LEFT_IN - 0.05, y), name, 8.5, ha="right", color=FAINT)
    wide, words = (WIDTH_IN - LEFT_IN) / len(ranks) - GAP_IN, []
    for number, count in enumerate(ranks):
        middle = LEFT_IN + number * (wide + GAP_IN) + wide / 2
        _draw_node(axes, middle, wide, count)
        if count == 2:
            _draw_two_rings(axes, middle)
        says = f"{count} × {port_GBps:g} GB/s" + f" = {count * port_GBps:g} GB/s" * (count > 1)
        write(axes, (middle, WORDS_Y), says, fontweight="bold", color=WORDS)
        words.append(f"with tp {DEVICES // count} it has {count} of the node's GPUs and uses as many ports, {says}"
                     + ": two rings enter at one of them and leave at the other" * (count == 2))
    return Picture(figure, f"One data-parallel group in a node of 8 GPUs: {'; '.join(words)}. NVLink joins the GPUs inside.")


def _draw_node(axes: Axes, middle: float, wide: float, count: int) -> None:
    """A node, in which each (8/count)-th GPU belongs to the group."""
    tp = DEVICES // count
    box(axes, (middle, NODE_Y), (wide, 1.93), "", "#FAFAFA", GREY, rounding=0.1, zorder=0)
    write(axes, (middle, 0.64), f"tp {tp}: {count} rank{'s' * (count > 1)} of the group", 9)
    box(axes, (middle, NVLINK_Y), (DEVICES * STEP_IN, 0.24), "NVLink", SWITCH_FILL, GREY)
    for device in range(DEVICES):
        x, own = middle + (device - (DEVICES - 1) / 2) * STEP_IN, device % tp == 0
        line(axes, (x, NVLINK_Y), (x, GPU_Y), BLUE, 3)
        line(axes, (x, GPU_Y), (x, PORT_Y + 0.58), ORANGE if own else PALE, 2.5)
        box(axes, (x, PORT_Y), (BOX_IN, 0.2), "", PORT_FILL if own else "white", GREY, rounding=0.03)
        box(axes, (x, GPU_Y), (BOX_IN, 0.28), str(device), GPU_FILL if own else "white", GREY, rounding=0.04)


def _draw_two_rings(axes: Axes, middle: float) -> None:
    """The rings of a group with two ranks in the node: each enters at one of them and leaves at the other."""
    left, right = (middle + (device - (DEVICES - 1) / 2) * STEP_IN for device in (0, DEVICES // 2))
    for enters, leaves, side, style in ((left, right, -RING_IN, "-"), (right, left, RING_IN, (0, (2, 1)))):
        low = NVLINK_Y + 0.27 + side
        axes.plot([enters + side, enters + side, leaves + side, leaves + side], [PORT_Y + 0.55, low, low, PORT_Y + 0.35],
                  color=INK, linewidth=1.3, linestyle=style, zorder=6)
        arrow(axes, (leaves + side, PORT_Y + 0.3), (leaves + side, PORT_Y + 0.6), INK, 1.3)
