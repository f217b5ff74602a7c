"""Time and bandwidth of collectives against their size: measured points, the α–β line, published measurements."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from utils.costs.formulas import bus_factor, ring_time_s, tree_broadcast_time_s
from utils.costs.tables import read_table
from utils.figures.colours import BLACK, BLUE, FAINT, ORANGE, VERMILLION, series_look
from utils.figures.style import Picture, human_bytes, plot, styled


@styled
def alpha_beta_figure(sizes_bytes: Sequence[float], times_s: Sequence[float], alpha_s: float, beta_s_per_byte: float,
                      n_ranks: int, held_out: tuple[float, float] | None = None, op: str = "all_reduce") -> Picture:
    """Measured times of a ring collective, the line of the α–β model, and a point that the fit did not see.

    sizes_bytes, times_s: what was measured; alpha_s, beta_s_per_byte: the fit; held_out: (bytes, seconds), measured;
    op: "all_reduce", "reduce_scatter" or "all_gather".
    """
    sizes = [*sizes_bytes, held_out[0]] if held_out else sizes_bytes
    grid = np.geomspace(min(sizes) / 1.5, max(sizes) * 1.5, 200)

    def model_ms(size: float) -> float:
        return 1e3 * ring_time_s(op, size, n_ranks, alpha_s, beta_s_per_byte)

    figure, axes = _size_axes(min(sizes), max(sizes))
    axes.plot(grid, [model_ms(size) for size in grid], color=BLUE,
              label=f"model: α = {alpha_s * 1e6:.3g} µs, 1/β = {1e-9 / beta_s_per_byte:.3g} GB/s")
    axes.plot(sizes_bytes, np.multiply(times_s, 1e3), "o", color=BLACK, label="measured, used for the fit")
    pairs = zip(sizes_bytes, times_s, strict=True)
    words = (f"{op} on {n_ranks} ranks, time against size: "
             + ", ".join(f"{human_bytes(size)} {1e3 * time:.3g} ms" for size, time in pairs) + ".")
    if held_out:
        words += _draw_held_out(axes, held_out[0], model_ms(held_out[0]), 1e3 * held_out[1])
    axes.set(ylabel="milliseconds", yscale="log", title=f"{op} on {n_ranks} ranks")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(LogFormatter())  # 2, 5, 20 where fewer than two powers of ten are in sight
    axes.legend(loc="upper left")
    return Picture(figure, words)


def _draw_held_out(axes: Axes, size: float, predicted_ms: float, measured_ms: float) -> str:
    axes.plot(size, predicted_ms, "D", color="white", markeredgecolor=BLUE, markersize=9, markeredgewidth=1.8,
              label=f"left out of the fit, predicted: {predicted_ms:.3g} ms")
    axes.plot(size, measured_ms, "x", color=VERMILLION, markersize=8, markeredgewidth=2,
              label=f"the same size, measured: {measured_ms:.3g} ms")
    return f" Held out: {human_bytes(size)} predicted {predicted_ms:.3g} ms, measured {measured_ms:.3g} ms."


@styled
def bandwidth_figure(rows: Sequence[dict], title: str = "") -> Picture:
    """Bus bandwidth (solid) and algorithm bandwidth (dashed) against size, one colour a series.

    rows: dictionaries with "series" (a name), "bytes", "algbw_GBps" and "busbw_GBps" (10⁹ bytes a second).
    """
    names = list(dict.fromkeys(row["series"] for row in rows))
    sizes = [row["bytes"] for row in rows]
    figure, axes = _size_axes(min(sizes), max(sizes))
    for i, name in enumerate(names):
        own = sorted((row for row in rows if row["series"] == name), key=lambda row: row["bytes"])
        x, look = [row["bytes"] for row in own], series_look(i) | {"markersize": 5}
        bus, algorithm = ([row[kind] for row in own] for kind in ("busbw_GBps", "algbw_GBps"))
        axes.plot(x, bus, label=f"{name}, bus" + " and algorithm" * (bus == algorithm), **look)
        if bus != algorithm:
            axes.plot(x, algorithm, "--", markerfacecolor="white", label=f"{name}, algorithm", **look)
    axes.set(ylabel="GB/s", ylim=(0, None), title=title)
    axes.legend(loc="upper left", ncols=1 if len(names) < 4 else 2)
    best = "; ".join(f"{name} up to {max(row['busbw_GBps'] for row in rows if row['series'] == name):.3g} GB/s"
                     for name in names)
    return Picture(figure, f"{title or 'Bandwidth against size'}. Bus bandwidth: {best}.")


@styled
def published_all_reduce_figure() -> Picture:
    """NCCL's all-reduce on 2 and 4 A100, as vTrain published it, beside the speed of the NVLinks."""
    rows = [{"series": f"{row['ranks']} × A100", "bytes": row["bytes"],
             "algbw_GBps": row["busbw_GBps"] / bus_factor("all_reduce", row["ranks"]), "busbw_GBps": row["busbw_GBps"]}
            for row in read_table("allreduce_a100_n2_n4")]
    picture = bandwidth_figure(rows, title="all-reduce by NCCL, measured by the authors of vTrain")
    link = next(row for row in read_table("links") if row["generation"] == "A100")
    speed, axes = link["one_way_GBps"], picture.figure.axes[0]
    axes.axhline(speed, color=FAINT, linestyle=(0, (2, 2)))
    axes.set_ylim(0, speed * 1.15)
    axes.annotate(f"all NVLinks of one A100 together, one way: {speed} GB/s", (axes.get_xlim()[1], speed),
                  xytext=(-4, 5), textcoords="offset points", ha="right", color=FAINT, fontsize=9)
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0.83))
    return Picture(picture.figure, f"{picture.words} The NVLinks of one A100 carry {speed} GB/s one way.")


@styled
def ring_or_tree_figure(total_bytes: float, n_ranks: int, alpha_s: float, beta_s_per_byte: float) -> Picture:
    """Time of an all-reduce against size, by the α–β model: a ring, and a tree (reduce to the root, then broadcast)."""
    ring, tree = all_reduce_times_s(total_bytes, n_ranks, alpha_s, beta_s_per_byte)
    grid = np.geomspace(2.0**8, 2.0**36, 200)
    curves = np.array([all_reduce_times_s(size, n_ranks, alpha_s, beta_s_per_byte) for size in grid])
    figure, axes = _size_axes(grid[0], grid[-1])
    for curve, name, colour, now in zip(curves.T, ("ring", "tree"), (BLUE, ORANGE), (ring, tree), strict=True):
        axes.plot(grid, 1e3 * curve, color=colour, linewidth=2, label=f"{name}: {1e3 * now:.4g} ms")
        axes.plot([total_bytes], [1e3 * now], "o", color=colour)
    axes.axvline(total_bytes, color=FAINT, linewidth=0.8)
    axes.set(yscale="log", ylabel="milliseconds",
             title=f"all-reduce of {human_bytes(total_bytes)} on {n_ranks} ranks, α = {1e6 * alpha_s:.3g} µs, "
                   f"1/β = {1e-9 / beta_s_per_byte:.3g} GB/s")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(loc="upper left")
    return Picture(figure, f"all-reduce of {human_bytes(total_bytes)} on {n_ranks} ranks by the α–β model: "
                           f"ring {1e3 * ring:.4g} ms, tree {1e3 * tree:.4g} ms.")


def all_reduce_times_s(total_bytes: float, n_ranks: int, alpha_s: float, beta_s_per_byte: float) -> tuple[float, float]:
    """Seconds of an all-reduce by a ring, and by a tree: a reduce to the root and a broadcast, ⌈log₂ n⌉ rounds each."""
    return (ring_time_s("all_reduce", total_bytes, n_ranks, alpha_s, beta_s_per_byte),
            2 * tree_broadcast_time_s(total_bytes, n_ranks, alpha_s, beta_s_per_byte))


def _size_axes(smallest: float, largest: float) -> tuple[Figure, Axes]:
    """A figure whose x axis is bytes, in powers of two."""
    figure, axes = plot(3.8)
    axes.set_xscale("log", base=2)
    axes.set(xlim=(smallest / 1.5, largest * 1.5), xlabel="size of the whole array")
    low, high = int(np.floor(np.log2(smallest))), int(np.ceil(np.log2(largest)))
    axes.set_xticks([2.0**power for power in range(low, high + 1, max(1, -(-(high - low) // 10)))])
    axes.xaxis.set_major_formatter(lambda size, _: human_bytes(size))
    axes.minorticks_off()
    axes.grid()
    return figure, axes
