"""The hardware that collectives run on: the ladder of links with their speeds, and the SuperPOD table."""

from dataclasses import dataclass, field
from math import log10

from matplotlib.axes import Axes

from utils.costs.tables import read_table
from utils.figures.style import BLUE, FAINT, GREEN, ORANGE, PURPLE, Picture, canvas, styled, text_width_in
from utils.figures.tables import Column, Table

PCIE_LANES = 16
INSIDE, BETWEEN, TPU, AMD = BLUE, ORANGE, GREEN, PURPLE
PLACES = {"inside a node": INSIDE, "between nodes": BETWEEN, "AMD": AMD, "TPU": TPU}


@dataclass(frozen=True)
class Rung:
    """One kind of link: its name, what it joins, and its one-way GB/s by generation (none: the remark says why)."""

    name: str
    joins: str
    colour: str
    speeds_GBps: dict[str, float] = field(default_factory=dict)
    remark: str = ""


def ladder() -> list[Rung]:
    """The rungs from one PCIe lane to the links between nodes, with the speeds of utils/costs/data/links.csv."""
    pcie = link_speeds("PCIe x16")
    return [
        Rung("PCIe lane", "the thinnest wire to a GPU or card", INSIDE,
             {generation: speed / PCIE_LANES for generation, speed in pcie.items()}),
        Rung("PCIe x16", "a GPU or network card to a CPU", INSIDE, pcie),
        Rung("PLX (PCIe switch)", "neighbours share one way up to the CPU", INSIDE,
             remark="as fast as its PCIe x16 ports"),
        Rung("NVLink", "GPU to GPU, all links of one GPU", INSIDE, link_speeds("NVLink (whole GPU)")),
        Rung("NVSwitch", "every GPU to every GPU of the node", INSIDE, remark="each GPU keeps its full NVLink speed"),
        Rung("xGMI", "AMD's links, GPU to GPU without a switch", AMD, remark="plays the part of NVLink"),
        Rung("HCA and InfiniBand", "one network card to the other nodes", BETWEEN, link_speeds("InfiniBand port")),
        Rung("all cards of a node", "8 GPUs with a card each", BETWEEN, link_speeds("node egress (8 GPUs)")),
        Rung("TPU ICI link", "a TPU to one neighbour of its torus", TPU, link_speeds("TPU ICI per link")),
    ]


def link_speeds(link: str) -> dict[str, float]:
    """One-way GB/s of a link, by generation, from utils/costs/data/links.csv.  Raises: ValueError for an unknown link."""
    rows = read_table("links")
    speeds = {row["generation"]: row["one_way_GBps"] for row in rows if row["link"] == link}
    if not speeds:
        raise ValueError(f"no link called {link!r}; known: {', '.join(sorted({row['link'] for row in rows}))}")
    return speeds


# ── the ladder ──

NAME_IN, BARS_IN, BAR_IN, ROW_GAP_IN = 3.15, 4.5, 0.2, 0.14
FASTEST_GBPS = 1000.0


@styled
def ladder_figure() -> Picture:
    """The links between GPUs and nodes, with their one-way speed in GB/s on a logarithmic scale."""
    rungs = ladder()
    heights = [max(2, len(rung.speeds_GBps)) * BAR_IN + ROW_GAP_IN for rung in rungs]
    figure, axes = canvas(sum(heights) + 1.05)
    top = axes.get_ylim()[1] - 0.5
    _draw_key(axes, top + 0.25)
    _draw_scale(axes, top - sum(heights))
    for rung, height in zip(rungs, heights, strict=True):
        _draw_rung(axes, rung, top - height / 2)
        top -= height
    words = "; ".join(f"{rung.name} " + (", ".join(f"{generation} {speed:g} GB/s" for generation, speed in
                                                   rung.speeds_GBps.items()) or rung.remark) for rung in rungs)
    return Picture(figure, f"The hardware ladder, one-way speeds: {words}.")


def _position(speed_GBps: float) -> float:
    """Inches from the left for a speed, one unit of log10 from 1 GB/s."""
    return NAME_IN + BARS_IN * log10(speed_GBps) / log10(FASTEST_GBPS)


def _draw_rung(axes: Axes, rung: Rung, middle: float) -> None:
    axes.text(0.2, middle + 0.09, rung.name, va="center", fontweight="bold")
    axes.text(0.2, middle - 0.09, rung.joins, va="center", fontsize=8.5, color=FAINT)
    n_bars = len(rung.speeds_GBps)
    for i, (generation, speed) in enumerate(rung.speeds_GBps.items()):
        y = middle + (n_bars / 2 - i - 0.5) * BAR_IN
        axes.barh(y, _position(speed) - NAME_IN, left=NAME_IN, height=BAR_IN * 0.82, color=rung.colour, zorder=2)
        right = _position(speed) + 0.07
        axes.text(right, y, f"{speed:g}", va="center_baseline", fontweight="bold", fontsize=9)
        axes.text(right + 0.11 + 0.09 * len(f"{speed:g}"), y, generation, va="center_baseline", fontsize=8.5,
                  color=FAINT)
    if rung.remark:
        axes.plot([NAME_IN], [middle], "o", color=rung.colour, markersize=5)
        axes.text(NAME_IN + 0.14, middle, rung.remark, va="center_baseline", fontsize=8.5, color=FAINT)


def _draw_scale(axes: Axes, bottom: float) -> None:
    axes.plot([_position(1), _position(FASTEST_GBPS)], [bottom, bottom], color=FAINT, linewidth=0.8)
    for speed in (1, 10, 100, 1000):
        x = _position(speed)
        axes.plot([x, x], [bottom, bottom - 0.04], color=FAINT, linewidth=0.8)
        axes.text(x, bottom - 0.15, f"{speed}", ha="center", va="center", fontsize=8.5, color=FAINT)
    axes.text((_position(1) + _position(FASTEST_GBPS)) / 2, bottom - 0.35, "GB/s one way, logarithmic", ha="center",
              va="center", fontsize=9)


def _draw_key(axes: Axes, y: float) -> None:
    x = NAME_IN
    for place, colour in PLACES.items():
        axes.barh(y, 0.14, left=x, height=0.12, color=colour)
        axes.text(x + 0.22, y, place, va="center_baseline", fontsize=9)
        x += text_width_in(place, 9) + 0.5


# ── SuperPODs ──

H100_BF16_SHARE = 7.9 / 16  # of the published FP8 figure: the note in superpod.csv


def superpod_table() -> Table:
    """A100 and H100 systems as published, with the dense PFLOP/s in BF16 for all, so that they can be compared.

    The published 16 PFLOP/s of a DGX H100 counts FP8, the 2.5 of a DGX A100 BF16: in BF16 a DGX H100 does about 7.9.
    """
    rows = [row | _in_bf16(row) for row in read_table("superpod")]
    base = {row["gpus"]: row["bf16"] for row in rows if "A100" in row["system"]}
    columns = [
        Column("system"), Column("gpus", "GPUs"), Column("dense_PFLOPs", "as published", "PFLOP/s"),
        Column("format", "counted in"), Column("bf16", "in BF16", "PFLOP/s", show=lambda value: f"{value:.3g}"),
        Column("times", "against A100", show=lambda value: f"{value:.1f} ×"),
        Column("bisection_GBps", "bisection", "GB/s", show="{:,}".format), Column("reduce_GBps", "reduce", "GB/s"),
    ]
    return Table([row | {"times": row["bf16"] / base[row["gpus"]]} for row in rows], columns)


def _in_bf16(row: dict) -> dict:
    number_format = row["note"].split(":")[0]
    share = H100_BF16_SHARE if number_format == "FP8" else 1.0
    return {"format": number_format, "bf16": row["dense_PFLOPs"] * share}
