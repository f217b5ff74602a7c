"""Curves: losses and memory over time, times against ranks, throughput against the batch; and time against memory."""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from utils.figures.colours import BLACK, CYCLE, FAINT, INK, series_look
from utils.figures.style import Picture, byte_unit, human_bytes, new_figure, plot, styled

KIB, MIB = 1 << 10, 1 << 20
NO_DISTANCE = 1e-8


@styled
def loss_curves(curves: Mapping[str, Sequence[float]]) -> Picture:
    """The first curve as a line; each other one as marks on top of it, every few steps.

    curves: name → loss of each step.
    Raises: ValueError without a curve.
    """
    if not curves:
        raise ValueError("loss_curves needs one or more {name: losses}")
    figure, axes = plot(3.2)
    (first, yardstick), *others = curves.items()
    axes.plot(yardstick, color=CYCLE[0], linewidth=2, label=first)
    for number, (name, losses) in enumerate(others):
        every = max(len(others), len(losses) // 12)  # so that no two curves are marked at the same step
        shown = range(number * every // len(others), len(losses), every)
        look = series_look(number) | {"color": CYCLE[(number + 1) % len(CYCLE)]}  # the first colour is the line's
        axes.plot(shown, [losses[step] for step in shown], linestyle="none", markersize=7, alpha=0.85,
                  markerfacecolor="none", markeredgewidth=1.6, label=name, **look)
    turns = "; the curves are marked at different steps" * (len(others) > 1)
    marks = f"   (a mark every {every} steps{turns})" if others and every > 1 else ""
    axes.set(xlabel=f"step{marks}", ylabel="loss of the batch (nats a byte)")
    axes.legend(loc="upper right")
    return Picture(figure, "Loss against step. " + "; ".join(
        f"{name}: from {losses[0]:.3f} to {losses[-1]:.3f}" for name, losses in curves.items()) + ".")


@styled
def distance_curves(distances: Mapping[str, Sequence[float]], yardstick: str) -> Picture:
    """How far the losses of some runs are from those of `yardstick`, on a logarithmic axis that begins at NO_DISTANCE.

    distances: name → absolute difference at each step.
    Raises: ValueError without a curve.
    """
    if not distances:
        raise ValueError("distance_curves needs one or more {name: distances}")
    figure, axes = plot(2.8)
    for number, (name, apart) in enumerate(distances.items()):
        axes.plot([max(value, NO_DISTANCE) for value in apart], label=name, **series_look(number))
    axes.set(xlabel=f"step   (equal losses are drawn at {NO_DISTANCE:g})", yscale="log",
             ylabel=f"|loss − loss of {yardstick}|")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Picture(figure, f"Distance of the loss from that of {yardstick}, at each step. " + "; ".join(
        f"{name}: at most {max(apart):.0e}" for name, apart in distances.items()) + ".")


@styled
def drift_figure(losses: Mapping[str, Sequence[float]], drifts: Mapping[str, Sequence[float]]) -> Picture:
    """Left the loss of each step, right how far apart the ranks are in what should be equal on all of them.

    losses, drifts: name → value after each step; the same names in both.
    Raises: ValueError unless both have the same names, one or more.
    """
    if not losses or list(losses) != list(drifts):
        raise ValueError(f"losses and drifts should have the same names, one or more: got {list(losses)} and {list(drifts)}")
    figure = new_figure(3.0, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    for axes, curves, label in zip(figure.subplots(1, 2), (losses, drifts), (
            "loss of the batch (nats a byte)", "largest difference between ranks"), strict=True):
        for number, (name, values) in enumerate(curves.items()):
            axes.plot(values, color=CYCLE[number], linewidth=3 - 1.4 * bool(number), linestyle="--" if number else "-",
                      label=name)
        axes.set(xlabel="step", ylabel=label)
        axes.legend(loc="upper right" if curves is losses else "upper left")
    return Picture(figure, "Loss, and difference between ranks. " + "; ".join(
        f"{name}: loss from {losses[name][0]:.3f} to {losses[name][-1]:.3f}, difference in the end {drifts[name][-1]:.2g}"
        for name in losses) + ".")


@styled
def memory_curve(curves: Mapping[str, Sequence[float]], moments: str, above: str = "",
                 backward_from: float | None = None) -> Picture:
    """Bytes held at each moment, one line of steps for each name, with its highest point marked.

    curves: name → bytes, in order of time, such as held_bytes() after every layer; moments: what the moments are;
    above: if the bytes are those above an earlier level, what this level is, and they are shown in KiB, the last ones as a
    step of its own with its number;
    backward_from: the first moment of the backward pass, where a line is drawn.
    Raises: ValueError without a curve, or with an empty one.
    """
    if not curves or not all(len(held) for held in curves.values()):
        raise ValueError("memory_curve needs one or more {name: bytes held at each moment}, none of them empty")
    most = max(max(held) for held in curves.values())
    scale, unit = (KIB, "KiB") if above else byte_unit(most)
    figure, axes = plot(3.0)
    for number, (name, held) in enumerate(curves.items()):
        highest = max(held)
        said = f"{highest / KIB:,.0f} KiB" if above else human_bytes(highest)
        levels = [size / scale for size in (*held, *held[-1:] * bool(above))]
        axes.plot(levels, drawstyle="steps-post", linewidth=2, color=CYCLE[number],
                  label=f"{name}: {said} at most", marker="o", markevery=[list(held).index(highest)])
    top = 1.25 * most / scale or 1
    if above:
        _say_ends(axes, [(len(held), held[-1] / KIB) for held in curves.values()], 0.06 * top)
    axes.set(xlabel=moments, ylabel=f"{unit} above {above}" if above else f"{unit} held", ylim=(0, top))
    if backward_from is not None:
        for text, align in ((" backward", "left"), ("forward ", "right")):
            axes.text(backward_from, 0.97 * top, text, ha=align, va="top", fontsize=8.5, color=FAINT)
        axes.axvline(backward_from, color=FAINT, linewidth=0.8)
    axes.legend(loc="upper left", ncols=1 if backward_from else len(curves))
    return Picture(figure, f"Memory at each moment ({moments}). " + "; ".join(
        f"{name}: at most {human_bytes(max(held))}, in the end {human_bytes(held[-1])}" for name, held in curves.items())
        + ".")


def _say_ends(axes: Axes, ends: Sequence[tuple[int, float]], apart: float) -> None:
    """At the right end (moment, KiB) of each curve its number; once where several end less than `apart` from each other."""
    said: list[float] = []
    for x, level in ends:
        if all(abs(level - other) >= apart for other in said):
            axes.annotate(f"{level:,.0f} KiB", (x, level), xytext=(4, 0), textcoords="offset points", va="center",
                          fontsize=8.5)
            said.append(level)


@styled
def step_memory_figure(panels: Mapping[str, Mapping[str, Sequence[float]]],
                       unit: tuple[float, str] | None = None) -> Picture:
    """Bytes held through a step: side by side a panel for each title, in it lines of steps.

    panels: title → name → bytes, of which the first third are moments of forward, the others of backward;
    unit: of the scale, its bytes and its name; without one, the unit that suits the bytes.
    Raises: ValueError without panels.
    """
    if not panels:
        raise ValueError("step_memory_figure needs one or more {title: {name: bytes held at each moment}}")
    scale, unit_name = unit or byte_unit(max(max(held) for lines in panels.values() for held in lines.values()))
    figure = new_figure(3.0, layout="constrained")
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, lines) in zip(grid, panels.items(), strict=True):
        for number, (name, held) in enumerate(lines.items()):
            axes.plot([size / scale for size in held], drawstyle="steps-mid", color=CYCLE[number], label=name,
                      **({"linestyle": "--", "linewidth": 1.5} if number else {"linewidth": 3}))
        first = next(iter(lines.values()))
        axes.annotate(f"{max(first) / scale:.3g}", (first.index(max(first)) - 0.5, max(first) / scale), xytext=(-4, 2),
                      textcoords="offset points", ha="right", va="center", fontsize=8.5, color=CYCLE[0])
        third = len(held) / 3
        axes.axvline(third - 0.5, color=FAINT, linewidth=0.8)
        axes.set(title=title, xticks=[third / 2 - 0.5, 2 * third - 0.5], xticklabels=["forward", "backward"])
    grid[0].set(ylabel=f"{unit_name} held", ylim=(0, None))
    grid[0].legend(loc="upper right")
    return Picture(figure, "Activations held through a step. " + ". ".join(f"{title}: " + "; ".join(
        f"{name} {human_bytes(held[len(held) // 3 - 1])} after forward, at most {human_bytes(max(held))}"
        for name, held in lines.items()) for title, lines in panels.items()) + ".")


@styled
def speed_up_figure(ranks: Sequence[int], speed_ups: Mapping[str, Sequence[float]]) -> Picture:
    """How many times as fast as one rank some ranks are; a black line shows n times.

    ranks: numbers of ranks; speed_ups: name → speed-up on each of them.
    """
    figure, axes = plot(3.2)
    axes.plot(ranks, ranks, color=BLACK, linewidth=1.2, label="n times as fast")
    for number, (name, times) in enumerate(speed_ups.items()):
        axes.plot(ranks, times, label=f"{name}: {times[-1]:,.0f} on {ranks[-1]:,}", **series_look(number))
    axes.set(xlabel="ranks", ylabel="speed-up", xlim=(0, None), ylim=(0, None))
    axes.legend(loc="upper left")
    axes.grid(True)
    return Picture(figure, "Speed-up over one rank. " + "; ".join(
        f"{name}: " + ", ".join(f"{factor:.4g} on {n}" for n, factor in zip(ranks, times, strict=True))
        for name, times in speed_ups.items()) + ".")


@styled
def layer_times(n_ranks: Sequence[int], bytes_sent: Sequence[float], compute_s: Sequence[float],
                links: Mapping[str, float], node: int | None = None, inside: Collection[str] = (),
                more_s: Mapping[str, Mapping[int, float]] = MappingProxyType({}),
                computing: str = "computation") -> Picture:
    """What a layer's communication takes on each link, and its computation: milliseconds against the number of ranks.

    n_ranks: numbers of ranks; bytes_sent, compute_s: for each of them, what one rank sends and how long it computes;
    links: name → one-way GB/s (10⁹ bytes a second); node: how many ranks a node has, marked by a line, and
    by the milliseconds there; inside: links that end with the node, so their lines are dotted beyond it; more_s: further
    lines, name → {number of ranks: seconds}, the first beyond the node with its time; computing: what the legend says of
    the computation. A circle marks where a line crosses it, with the most ranks on which sending takes no longer.
    The legend names the lines from top to bottom as they end at the right.
    Raises: ValueError unless the three sequences have one length.
    """
    if not len(n_ranks) == len(bytes_sent) == len(compute_s) > 0:
        raise ValueError(f"one number of bytes and one time for each number of ranks, please: got {len(n_ranks)} numbers of "
                         f"ranks, {len(bytes_sent)} of bytes, {len(compute_s)} times")
    computing_ms = dict(zip(n_ranks, (1e3 * time for time in compute_s), strict=True))
    links_ms = {name: {n: sent / speed_GBps / 1e6 for n, sent in zip(n_ranks, bytes_sent, strict=True)}
                for name, speed_GBps in links.items()}
    more_ms = {name: {n: 1e3 * time for n, time in times.items()} for name, times in more_s.items()}
    figure, axes = _log_axes(4.4, n_ranks)
    axes.plot(n_ranks, computing_ms.values(), color=BLACK, linewidth=2.5, label=computing)
    for number, (name, times) in enumerate(links_ms.items()):
        last = n_ranks.index(node) if name in inside and node in n_ranks else len(n_ranks) - 1
        look, times_ms = {"markersize": 5, **series_look(number)}, [*times.values()]
        axes.plot(n_ranks[:last + 1], times_ms[:last + 1], linestyle="--", label=f"{name}, {links[name]:g} GB/s", **look)
        if last + 1 < len(n_ranks):
            axes.plot(n_ranks[last:], times_ms[last:], linestyle=":", alpha=0.4, zorder=1, **look)
    for number, (name, times) in enumerate(more_ms.items(), len(links_ms)):
        axes.plot(times.keys(), times.values(), markersize=5, label=name, **series_look(number))
        for n in [n for n in times if n != node][:1]:
            _write_at(axes, n, times[n], f"{times[n]:.1f}")
    crossings = {name: at for name, times in (links_ms | more_ms).items() if (at := _crossing(computing_ms, times))}
    for number, (n, time_ms) in enumerate(crossings.values()):
        axes.plot([n], [time_ms], "o", markersize=9, markerfacecolor="none", color=INK, zorder=4,
                  label="" if number else "sending takes as long as the\ncomputation, on n ranks")
        last = n > n_ranks[-1] / 2  # to the right there is no room
        _write_at(axes, n, time_ms, f"n = {int(n)}", left=last, above=not last, fontstyle="italic")
    axes.set(xlabel="ranks that share the layer", ylabel="milliseconds a layer (logarithmic)")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    axes.grid(True, axis="y")
    if node is not None:
        axes.axvline(node, color=FAINT, linewidth=0.8)
        if node in n_ranks:
            _write_at(axes, node, computing_ms[node], f"{computing_ms[node]:.1f}", above=True)
        for times in links_ms.values() if node in n_ranks else ():
            _write_at(axes, node, times[node], f"{times[node]:.1f}", left=True)
        axes.annotate(f"{node} GPUs: a full node", (node, axes.get_ylim()[0]), xytext=(4, 4), textcoords="offset points",
                      color=FAINT, fontsize=8.5)
    at_right_ms = {f"{name}, {links[name]:g} GB/s": times[n_ranks[-1]] for name, times in links_ms.items()}
    at_right_ms |= {name: [*times.values()][-1] for name, times in more_ms.items()} | {computing: computing_ms[n_ranks[-1]]}
    named = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda entry: -at_right_ms.get(entry[1], 0))
    axes.legend(*zip(*named, strict=True), loc="center left", bbox_to_anchor=(1.0, 0.5))  # the circle comes last
    ends = sorted({n_ranks[0], n_ranks[-1]})
    return Picture(figure, "Milliseconds a layer. " + "; ".join(
        f"{name}: " + ", ".join(f"{times[n]:.3g} ms on {n} ranks" for n in ends)
        for name, times in ({"computing": computing_ms} | links_ms).items()) + "".join(
        f"; {name}: " + ", ".join(f"{time_ms:.3g} ms on {n} ranks" for n, time_ms in times.items())
        for name, times in more_ms.items()) + "".join(
        f"; {name} crosses the computation at {int(n)} ranks" for name, (n, _) in crossings.items()) + ".")


def _crossing(falling: Mapping[int, float], rising: Mapping[int, float]) -> tuple[float, float] | None:
    """Where the second line first crosses the first, as they are drawn on logarithmic axes: (x, y)."""
    for a, b in itertools.pairwise([n for n in falling if n in rising]):
        before, after = (math.log(falling[n] / rising[n]) if rising[n] else math.inf for n in (a, b))
        if 0 <= before < math.inf and after < 0:
            share = before / (before - after)
            return a * (b / a) ** share, rising[a] * (rising[b] / rising[a]) ** share
    return None


def _write_at(axes: Axes, x: float, y: float, text: str, left: bool = False, above: bool = False, **look) -> None:
    """A small number near a point: below it or above, to its right or left."""
    axes.annotate(text, (x, y), xytext=(-5 if left else 5, 3 if above else -4), textcoords="offset points",
                  ha="right" if left else "left", va="bottom" if above else "top", fontsize=8.5, fontweight="bold", **look)


def _log_axes(height_in: float, ranks: Sequence[int]) -> tuple[Figure, Axes]:
    """Two logarithmic axes, with numbers of ranks to the right."""
    figure, axes = plot(height_in)
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xticks=ranks)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    return figure, axes


@styled
def throughput_figure(curves: Mapping[str, Mapping[int, float]], measured: Mapping[int, float],
                      limits: Mapping[str, float]) -> Picture:
    """Rows per second against the rows of a batch, on a logarithmic axis.

    curves: name → {rows of a batch: rows per second}; limits: of each name the rate that it approaches, a dashed line.
    measured: of the first name, crosses in its colour.
    """
    figure, axes = plot(3.4)
    for number, (name, rates) in enumerate(curves.items()):
        axes.plot(rates.keys(), rates.values(), color=CYCLE[number], linewidth=2, label=name)
        axes.axhline(limits[name], color=CYCLE[number], linewidth=1, linestyle="--")
    axes.plot(measured.keys(), measured.values(), "x", color=CYCLE[0], markersize=9, markeredgewidth=2,
              label=f"{next(iter(curves))},\nmeasured")
    axes.plot([], [], color=FAINT, linewidth=1, linestyle="--", label="limit")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="rows in the batch (logarithmic)", ylabel="rows per second", ylim=(0, 1.08 * max(limits.values())))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Picture(figure, "Rows per second against the batch. " + "; ".join(
        f"{name}: up to {max(rates.values()):.3g}, limit {limits[name]:.3g}" for name, rates in curves.items())
        + "; measured: " + ", ".join(f"{rate:.3g} with {rows} rows" for rows, rate in measured.items()) + ".")


@styled
def trade_figure(points: Mapping[str, tuple[float, float]]) -> Picture:
    """Memory against time: name → (bytes kept for backward, seconds of a step).

    Raises: ValueError without points.
    """
    if not points:
        raise ValueError("trade_figure needs one or more {name: (bytes, seconds)}")
    figure, axes = plot(3.0)
    for number, (name, (kept, seconds)) in enumerate(points.items()):
        axes.plot(kept / MIB, 1e3 * seconds, markersize=10, **series_look(number))
        axes.annotate(name, (kept / MIB, 1e3 * seconds), xytext=(9, 4), textcoords="offset points")
    most_bytes, most_s = map(max, zip(*points.values(), strict=True))
    axes.set(xlim=(0, 1.3 * most_bytes / MIB), ylim=(0, 1.25e3 * most_s), xlabel="kept from forward to backward (MiB)",
             ylabel="CPU time, forward\nand backward (ms)")
    axes.grid(True)
    return Picture(figure, "Memory against time. " + "; ".join(
        f"{name}: {human_bytes(kept)}, {1e3 * seconds:.3g} ms" for name, (kept, seconds) in points.items()) + ".")
