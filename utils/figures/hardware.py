"""The hardware that collectives run on: the ladder of links with their speeds, and the SuperPOD table."""

from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from utils.costs.tables import read_table
from utils.figures.colours import BLUE, FAINT, GREEN, ORANGE, PURPLE
from utils.figures.style import WIDTH_IN, Picture, inch_axes, new_figure, styled
from utils.figures.tables import Column, Table

PCIE_LANES = 16
NEWER = {"NVLink": {"B200": 900.0}, "InfiniBand": {"XDR 800 Gb/s": 100.0}, "xGMI": {"MI300X": 64.0}}  # their data sheets
MEMORY_GBPS = {"H100": 3350.0}  # HBM, by its data sheet
ON_GPU, INSIDE, BETWEEN, TPU = PURPLE, BLUE, ORANGE, GREEN
PLACES = {"inside a GPU": ON_GPU, "inside a node": INSIDE, "between nodes": BETWEEN, "between TPUs": TPU}


@dataclass(frozen=True)
class Rung:
    """One kind of link: its name, what it joins, and its one-way GB/s by generation (none: the remark says why)."""

    name: str
    joins: str
    colour: str
    speeds_GBps: dict[str, float] = field(default_factory=dict)
    remark: str = ""


def ladder() -> list[Rung]:
    """A GPU's memory, then one PCIe lane to the links between nodes; speeds from links.csv, NEWER and MEMORY_GBPS."""
    pcie = link_speeds("PCIe x16")
    return [
        Rung("HBM", "a GPU to its own large memory", ON_GPU, MEMORY_GBPS),
        Rung("PCIe lane", "the thinnest wire to a GPU or card", INSIDE,
             {generation: speed / PCIE_LANES for generation, speed in pcie.items()}),
        Rung("PCIe x16", "a GPU or network card to a CPU", INSIDE, pcie),
        Rung("PLX (PCIe switch)", "neighbours share one way up to the CPU", INSIDE,
             remark="as fast as its PCIe x16 ports"),
        Rung("NVLink", "GPU to GPU, all links of one GPU", INSIDE, link_speeds("NVLink (whole GPU)") | NEWER["NVLink"]),
        Rung("NVSwitch", "every GPU to every GPU of the node", INSIDE, remark="each GPU keeps its full NVLink speed"),
        Rung("xGMI", "AMD's link, from one GPU to one other", INSIDE, NEWER["xGMI"]),
        Rung("HCA and InfiniBand", "one network card to the other nodes", BETWEEN,
             link_speeds("InfiniBand port") | NEWER["InfiniBand"]),
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

NAME_IN, SCALE_IN, LINE_IN, ROW_GAP_IN, BOTTOM_IN = 3.15, 4.5, 0.2, 0.14, 0.55
SPEEDS_GBPS = (1, 10, 100, 1000, 10_000)  # of the scale


@styled
def ladder_figure() -> Picture:
    """A GPU's memory and the links between GPUs and nodes, with their one-way speed in GB/s on a logarithmic scale."""
    rungs = ladder()
    heights = [max(2, len(rung.speeds_GBps)) * LINE_IN + ROW_GAP_IN for rung in rungs]
    top = sum(heights)
    figure = new_figure(top + BOTTOM_IN + 0.5)
    axes = inch_axes(figure, NAME_IN, BOTTOM_IN, SCALE_IN, top)
    axes.set(xscale="log", xlim=(SPEEDS_GBPS[0], SPEEDS_GBPS[-1]), ylim=(0, top), yticks=[],
             xlabel="GB/s one way, logarithmic")
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.set_xticks(SPEEDS_GBPS, [f"{speed:,}" for speed in SPEEDS_GBPS], color=FAINT, fontsize=8.5)
    axes.minorticks_off()
    axes.spines["left"].set_visible(False)
    for rung, height in zip(rungs, heights, strict=True):
        _draw_rung(axes, rung, top - height / 2)
        top -= height
    keys = [Patch(facecolor=colour, label=place) for place, colour in PLACES.items()]
    figure.legend(handles=keys, ncols=len(keys), loc="upper left", borderaxespad=0, borderpad=0,
                  handlelength=1.1, handleheight=0.9, bbox_to_anchor=(NAME_IN / WIDTH_IN, 1 - 0.19 / figure.get_figheight()))
    words = "; ".join(f"{rung.name} " + (", ".join(f"{generation} {speed:g} GB/s" for generation, speed in
                                                   rung.speeds_GBps.items()) or rung.remark) for rung in rungs)
    return Picture(figure, f"The hardware ladder, one-way speeds: {words}.")


def _draw_rung(axes: Axes, rung: Rung, middle: float) -> None:
    """Names to the left of the axes, and either dots at the speeds or the remark."""

    def beside(x: float, y: float, text: str, points: float, **look) -> None:
        axes.annotate(text, (x, y), xytext=(points, 0), textcoords="offset points", va="center_baseline", **look)

    small = {"fontsize": 8.5, "color": FAINT}
    beside(1, middle + 0.09, rung.name, -72 * (NAME_IN - 0.2), fontweight="bold")
    beside(1, middle - 0.09, rung.joins, -72 * (NAME_IN - 0.2), **small)
    for i, (generation, speed) in enumerate(rung.speeds_GBps.items()):
        y = middle + (len(rung.speeds_GBps) / 2 - i - 0.5) * LINE_IN
        axes.plot(speed, y, "o", color=rung.colour, markersize=7)
        beside(speed, y, f"{speed:,g}", 7, fontweight="bold", fontsize=9)
        beside(speed, y, generation, 15 + 6.5 * len(f"{speed:,g}"), **small)
    if rung.remark:
        beside(1, middle, rung.remark, 10, **small)


# ── SuperPODs ──

H100_BF16_SHARE = 7.9 / 16  # of the published FP8 figure: the note in superpod.csv


def superpod_table() -> Table:
    """A100 and H100 systems as published, with the dense PFLOP/s in BF16 for all, so that they can be compared.

    The published 16 PFLOP/s of a DGX H100 counts FP8, the 2.5 of a DGX A100 BF16: in BF16 a DGX H100 does about 7.9.
    """
    rows = []
    for published in read_table("superpod"):
        number_format = published["note"].split(":")[0]
        share = H100_BF16_SHARE if number_format == "FP8" else 1.0
        rows.append(published | {"format": number_format, "bf16": published["dense_PFLOPs"] * share})
    base = {row["gpus"]: row["bf16"] for row in rows if "A100" in row["system"]}
    columns = [
        Column("system"), Column("gpus", "GPUs"), Column("dense_PFLOPs", "as published", "PFLOP/s"),
        Column("format", "counted in"), Column("bf16", "in BF16", "PFLOP/s", show="{:.3g}".format),
        Column("times", "against A100", show="{:.1f} ×".format),
        Column("bisection_GBps", "bisection", "GB/s", show="{:,}".format), Column("reduce_GBps", "reduce", "GB/s"),
    ]
    return Table([row | {"times": row["bf16"] / base[row["gpus"]]} for row in rows], columns)
