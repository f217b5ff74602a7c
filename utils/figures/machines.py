"""Schematic drawings of machines: a node of 8 GPUs and its network, and a torus of TPUs beside a switch of GPUs."""

from math import cos, pi, sin

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch

from utils.figures.colours import BLUE, FAINT, GREEN, GREY, ORANGE, SKY
from utils.figures.hardware import link_speeds
from utils.figures.shapes import Point, box, line, write
from utils.figures.style import Picture, canvas, styled

# ── a node ──

PCIE, NVLINK, INFINIBAND = GREY, BLUE, ORANGE
GPU_FILL, CARD_FILL, SWITCH_FILL = "#CFE6F5", "#FBE3B0", "#EFEFEF"
HALVES_X = (0.4, 4.3)  # left edges of the two halves of the node, 2.6 in wide each
IB_Y, CARD_Y, PLX_Y, GPU_Y, NVSWITCH_Y = 4.3, 3.45, 2.6, 1.7, 0.85


@styled
def node_figure() -> Picture:
    """Two nodes of 8 GPUs: NVSwitch and PCIe switches (PLX) inside, network cards (HCA) and InfiniBand between them.

    Speeds: one way, H100 generation, from utils/costs/data/links.csv.
    """
    figure, axes = canvas(4.75)
    _draw_frame(axes, (0.2, 7.05), "node 0")
    for half, left in enumerate(HALVES_X):
        _draw_half(axes, half, left)
    box(axes, (3.65, NVSWITCH_Y), (6.4, 0.36), "NVSwitch: every GPU to every GPU at its full speed", SWITCH_FILL)
    box(axes, (4.5, IB_Y), (8.4, 0.36), "InfiniBand switches", SWITCH_FILL)
    _draw_second_node(axes)
    speeds = _draw_speeds(axes)
    return Picture(figure, "Two nodes. In each, 8 GPUs hang on one NVSwitch, and in pairs on 4 PCIe switches, each "
                           "with two network cards and a way to a CPU; the cards reach the other node by InfiniBand. "
                           f"One way: {'; '.join(speeds)}.")


def _draw_half(axes: Axes, half: int, left: float) -> None:
    """One CPU with its two PCIe switches, four GPUs and four network cards."""
    cpu = left + 1.3, PLX_Y
    for switch in range(2):
        plx = left + 0.65 + 1.3 * switch, PLX_Y
        line(axes, cpu, plx, PCIE)
        for i in range(2):
            x = left + 0.325 + 0.65 * (2 * switch + i)
            line(axes, plx, (x, GPU_Y), PCIE)
            line(axes, plx, (x, CARD_Y), PCIE)
            line(axes, (x, CARD_Y), (x, IB_Y), INFINIBAND, 2)
            line(axes, (x, GPU_Y), (x, NVSWITCH_Y), NVLINK, 4)
            box(axes, (x, CARD_Y), (0.5, 0.3), "HCA", CARD_FILL)
            box(axes, (x, GPU_Y), (0.56, 0.36), f"GPU {4 * half + 2 * switch + i}", GPU_FILL)
        box(axes, plx, (0.5, 0.34), "PLX", SWITCH_FILL)
    box(axes, cpu, (0.56, 0.34), f"CPU {half}")


def _draw_second_node(axes: Axes) -> None:
    _draw_frame(axes, (7.3, 8.8), "node 1")
    write(axes, (8.05, 2.0), "the same\nagain", color=FAINT)
    for i in range(8):
        x = 7.46 + i * 0.168
        line(axes, (x, CARD_Y), (x, IB_Y), INFINIBAND, 2)
        box(axes, (x, CARD_Y), (0.12, 0.3), "", CARD_FILL)
    write(axes, (8.05, CARD_Y - 0.28), "8 HCAs", 8.5)


def _draw_speeds(axes: Axes) -> list[str]:
    """The speeds in the gap between the halves, beside the links that have them."""
    port, pcie = link_speeds("InfiniBand port"), link_speeds("PCIe x16")
    nvlink, node = link_speeds("NVLink (whole GPU)"), link_speeds("node egress (8 GPUs)")
    texts = [
        (CARD_Y - 0.03, ["InfiniBand NDR", f"{port['NDR 400 Gb/s']:g} GB/s a card",
                          f"{node['H100']:g} GB/s a node"], "#8A5F00"),
        (PLX_Y, ["PCIe 5 x16", f"{pcie['gen 5']:g} GB/s"], "#666666"),
        ((GPU_Y + NVSWITCH_Y) / 2 + 0.03, ["NVLink", f"{nvlink['H100']:g} GB/s a GPU"], NVLINK),
    ]
    for y, lines, colour in texts:
        write(axes, (3.65, y), "\n".join(lines), 8.5, color=colour, linespacing=1.3)
    return [" ".join(lines) for _, lines, _ in texts]


def _draw_frame(axes: Axes, extent: Point, name: str) -> None:
    """The outline of a node, from one x to another."""
    left, right = extent
    box(axes, ((left + right) / 2, 2.025), (right - left, 3.65), "", "#FAFAFA", GREY, rounding=0.12, zorder=0)
    write(axes, (left + 0.15, 0.4), name, ha="left", fontweight="bold")


# ── torus and switch ──

SIDE, STEP_IN = 4, 0.72


@styled
def torus_figure() -> Picture:
    """A 4 × 4 torus of TPUs, links to four neighbours only, beside 8 GPUs that an NVSwitch joins all to all."""
    figure, axes = canvas(4.3)
    _draw_torus(axes, (1.15, 1.12))
    _draw_star(axes, (6.75, 2.2), 1.3)
    for x, title, remark in [
            (2.23, "TPU: a torus, wrapped around", "Dense models need all-reduce,\nand a ring of neighbours does that."),
            (6.75, "GPU: all to all through a switch",
             "Mixture of experts needs all-to-all:\nevery GPU reaches every other through switches.")]:
        write(axes, (x, 4.08), title, 10.5, fontweight="bold")
        write(axes, (x, 0.27), remark)
    return Picture(figure, "Left: 16 TPUs in a 4 by 4 torus, each linked to 4 neighbours, the ends of every row and "
                           "column joined; enough for the all-reduce of dense models. Right: the 8 GPUs of a node "
                           "around an NVSwitch, each one hop from every other, as the all-to-all of mixture-of-experts "
                           "models needs.")


def _draw_torus(axes: Axes, corner: Point) -> None:
    spots = {(i, j): (corner[0] + i * STEP_IN, corner[1] + j * STEP_IN) for i in range(SIDE) for j in range(SIDE)}
    for (i, j), spot in spots.items():
        for neighbour in ((i + 1, j), (i, j + 1)):
            if neighbour in spots:
                line(axes, spot, spots[neighbour], GREEN, 2)
    for k in range(SIDE):
        _wrap(axes, spots[0, k], spots[SIDE - 1, k], 0.2)
        _wrap(axes, spots[k, 0], spots[k, SIDE - 1], -0.2)
    for spot in spots.values():
        box(axes, spot, (0.32, 0.28), "", "#CBEADF", GREEN)


def _wrap(axes: Axes, start: Point, end: Point, bend: float) -> None:
    axes.add_artist(FancyArrowPatch(start, end, arrowstyle="-", connectionstyle=f"arc3,rad={bend}", color=GREEN,
                                   linewidth=1.3, linestyle=(0, (4, 2)), zorder=1))


def _draw_star(axes: Axes, centre: Point, radius: float) -> None:
    for i in range(8):
        angle = pi / 2 - 2 * pi * i / 8
        spot = centre[0] + 1.35 * radius * cos(angle), centre[1] + radius * sin(angle)
        line(axes, spot, centre, SKY, 4)
        box(axes, spot, (0.6, 0.34), f"GPU {i}", GPU_FILL)
    box(axes, centre, (1.05, 0.5), "NVSwitch", SWITCH_FILL)
