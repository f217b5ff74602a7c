"""Data parallelism in pictures: a step, messages in time, the tokens that a rank needs, sizes of buckets and of batches."""

import itertools
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from utils.figures.colours import BLACK, CYCLE, FAINT, INK, PALE, rank_colour, series_look
from utils.figures.shapes import arrow, box, tile, write
from utils.figures.style import Picture, canvas, human_bytes, plot, styled

MOST_RANKS = 6
ROW_IN, BOX_IN = 0.62, 0.36  # from rank to rank; the height of a box
# Where each column's middle lies, how wide its boxes are, its heading and what is true of it below.
COLUMNS = {"batch": (0.75, 0.7, "the batch", ""), "rows": (2.15, 0.8, "rows", "different"),
           "model": (3.55, 1.0, "model", "equal"), "gradient": (4.95, 0.9, "gradient", "different"),
           "reduce": (6.1, 0.5, "", ""), "sum": (7.15, 0.8, "sum", "equal"), "step": (8.3, 0.8, "step", "equal")}


@styled
def data_parallel_figure(n_ranks: int = 3) -> Picture:
    """One step: the batch in shares, the whole model on each rank, gradients that an all-reduce sums, equal steps.

    Raises: ValueError unless there are 2 to 6 ranks.
    """
    if not 2 <= n_ranks <= MOST_RANKS:
        raise ValueError(f"n_ranks must be from 2 to {MOST_RANKS}; got {n_ranks}")
    height = 1.0 + n_ranks * ROW_IN
    figure, axes = canvas(height)
    for x, _, heading, below in COLUMNS.values():
        write(axes, (x, height - 0.22), heading, fontweight="bold")
        write(axes, (x, 0.2), below, 8.5, color=FAINT)
    middles = [height - 0.5 - ROW_IN * (rank + 0.5) for rank in range(n_ranks)]
    for rank, y in enumerate(middles):
        _draw_rank(axes, rank, y, n_ranks)
    x, width, _, _ = COLUMNS["reduce"]
    box(axes, (x, sum(middles) / n_ranks), (width, n_ranks * ROW_IN), "", PALE)
    write(axes, (x, sum(middles) / n_ranks), "all-reduce", 9.5, rotation=90, zorder=3)
    return Picture(figure, f"A step of data parallelism on {n_ranks} ranks. Each takes its own rows of the batch through a "
                           "whole copy of the model, forward and backward, to a gradient of its own; an all-reduce gives "
                           "every rank the sum of all gradients; every rank takes the same step.")


def _draw_rank(axes: Axes, rank: int, y: float, n_ranks: int) -> None:
    """One rank's way from its rows to its step."""
    batch_x, batch_width, *_ = COLUMNS["batch"]
    tile(axes, (batch_x - batch_width / 2, y - ROW_IN / 2), (batch_width, ROW_IN), rank_colour(rank), "white", 1.5)
    for name, text, colour in (("rows", f"of rank {rank}", rank_colour(rank)), ("model", "whole", PALE),
                               ("gradient", "own", rank_colour(rank)), ("step", "the same", PALE)):
        x, width, *_ = COLUMNS[name]
        box(axes, (x, y), (width, BOX_IN), text, colour)
    x, width, *_ = COLUMNS["sum"]
    _draw_sum(axes, (x - width / 2, y), width, n_ranks)
    names = list(COLUMNS)
    for left, right in itertools.pairwise(names):
        start = COLUMNS[left][0] + COLUMNS[left][1] / 2
        end = COLUMNS[right][0] - COLUMNS[right][1] / 2
        arrow(axes, (start, y), (end, y))


def _draw_sum(axes: Axes, left: tuple[float, float], width: float, n_ranks: int) -> None:
    """The ranks' colours with a plus between each two. left: the middle of the left end."""
    part = width / (1.6 * n_ranks - 0.6)
    for rank in range(n_ranks):
        x = left[0] + 1.6 * part * rank
        tile(axes, (x, left[1] - BOX_IN / 2), (part, BOX_IN), rank_colour(rank), zorder=2)
        if rank:
            write(axes, (x - 0.3 * part, left[1]), "+", 9 if n_ranks < 5 else 6, fontweight="bold")


PARTS, BYTES, LATENCY = 6, 0.8, 0.5  # gradients; time of each on the link, if its backward takes 1; of an all-reduce
MESSAGES = {  # title: (gradients of a message, whether it may leave during backward)
    "each gradient by itself, after backward": (1, False), "one flat buffer, after backward": (PARTS, False),
    "each gradient by itself, during backward": (1, True), "buckets of two, during backward": (2, True)}


@styled
def messages_figure() -> Picture:
    """The end of a step: gradients one by one or in one flat buffer, after backward or during it, and in buckets."""
    figure, axes = canvas(4.0)
    ends, unit_in = [], 0.51
    for row, (title, (together, early)) in enumerate(MESSAGES.items()):
        left, bottom = 1.2, 3.98 - 0.94 * (row + 1)
        write(axes, (left, bottom + 0.74), title, 9, ha="left", fontweight="bold")
        for lane, y in (("backward", bottom + 0.45), ("network", bottom + 0.15)):
            write(axes, (left - 0.12, y), lane, 8.5, ha="right", color=FAINT)
        for part in range(PARTS):
            tile(axes, (left + part * unit_in, bottom + 0.34), (unit_in, 0.22), rank_colour(0), "white", 1)
            write(axes, (left + (part + 0.5) * unit_in, bottom + 0.45), str(PARTS - part), 8)
        free = 0.0
        for last in range(together, PARTS + 1, together):
            begin = max(free, last if early else PARTS)
            free = begin + LATENCY + together * BYTES
            tile(axes, (left + begin * unit_in, bottom + 0.04), (LATENCY * unit_in, 0.22), INK, "white", 0.5)
            tile(axes, (left + (begin + LATENCY) * unit_in, bottom + 0.04), (together * BYTES * unit_in, 0.22),
                 rank_colour(1), "white", 0.5)
            numbers = [str(PARTS - part) for part in range(last - together, last)]
            write(axes, (left + (free - together * BYTES / 2) * unit_in, bottom + 0.15), " ".join(numbers), 8)
        ends.append(free)
        write(axes, (left + free * unit_in + 0.08, bottom + 0.15), f"{free:.1f}", 9, ha="left")
    for x, colour, meaning in ((5.8, rank_colour(0), "backward of a layer"), (7.35, INK, "latencies"),
                               (8.35, rank_colour(1), "bytes")):
        tile(axes, (x, 3.65), (0.14, 0.14), colour)
        write(axes, (x + 0.2, 3.72), meaning, 8.5, ha="left")
    return Picture(figure, f"Backward through {PARTS} layers and their all-reduces, where a layer's backward takes 1, the "
                           f"bytes of its gradient {BYTES} and an all-reduce's latencies {LATENCY}. The step ends at: "
                           + "; ".join(f"{title}: {end:.1f}" for title, end in zip(MESSAGES, ends, strict=True)) + ".")


@styled
def tokens_figure(tokens: Sequence[float], shares: Mapping[str, Sequence[float]], needed: Mapping[str, float]) -> Picture:
    """The share of its own speed that a rank keeps, against the tokens that it has in a step; both axes logarithmic.

    tokens: a rank's in a step; shares: name of a link → share (0 to 1) at each of them; needed: name → tokens from which
    the all-reduce hides behind the backward pass, marked by a line, where that is known.
    """
    figure, axes = plot(3.4)
    axes.axhline(100, color=BLACK, linewidth=1)
    for number, (name, kept) in enumerate(shares.items()):
        hidden = f": hidden from {needed[name]:,.0f} tokens on" if name in needed else ""
        axes.plot(tokens, [100 * share for share in kept], color=CYCLE[number], linewidth=2, label=name + hidden)
        if name in needed:
            axes.axvline(needed[name], color=CYCLE[number], linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="tokens of one rank in a step", ylabel="% of a rank's own speed", ylim=(2, 130))
    axes.set_yticks([2, 5, 10, 20, 50, 100])
    axes.set_xticks([4**power for power in range(30) if tokens[0] <= 4**power <= tokens[-1]])
    axes.xaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.legend(loc="lower right", frameon=True, framealpha=1, edgecolor="white")
    return Picture(figure, "How much of its own speed a rank keeps. " + "; ".join(
        f"{name}: {kept[0]:.0%} with {tokens[0]:,.0f} tokens, {kept[-1]:.0%} with {tokens[-1]:,.0f}"
        + (f", the all-reduce hidden from {needed[name]:,.0f} on" if name in needed else "")
        for name, kept in shares.items()) + ".")


@styled
def bucket_figure(limits_bytes: Sequence[float], times_ms: Mapping[str, Sequence[float]],
                  n_buckets: Sequence[int] = ()) -> Picture:
    """Milliseconds of a step against the limit of its buckets; one line for each name, its lowest point filled.

    limits_bytes: of a bucket; times_ms: name → milliseconds at each of them, such as measured, by formula.
    n_buckets: how many buckets each limit makes, written below it; empty for no such numbers.
    """
    figure, axes = plot(3.2)
    lows = []
    for number, (name, times) in enumerate(times_ms.items()):
        look = series_look(number)
        low = min(range(len(times)), key=times.__getitem__)
        axes.plot(limits_bytes, times, markerfacecolor="white", label=name, **look)
        axes.plot(limits_bytes[low], times[low], markersize=9, **look)
        lows.append(f"{name}: {times[0]:.3g} ms with {human_bytes(limits_bytes[0])}, lowest {times[low]:.3g} ms with "
                    f"{human_bytes(limits_bytes[low])}, {times[-1]:.3g} ms with {human_bytes(limits_bytes[-1])}")
    axes.set_xscale("log", base=2)
    counts = [f"\n{count}" for count in n_buckets] or [""] * len(limits_bytes)
    axes.set_xticks(limits_bytes, [human_bytes(limit) + count for limit, count in zip(limits_bytes, counts, strict=True)])
    axes.set(xlabel="limit of a bucket" + ", and the number of buckets" * bool(n_buckets), yscale="log",
             ylabel="milliseconds a step (logarithmic)")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.margins(y=0.15)
    axes.legend(loc="best")
    axes.grid(True)
    return Picture(figure, "Milliseconds of a step against the limit of its buckets. " + "; ".join(lows) + ".")


@styled
def critical_batch_figure() -> Picture:
    """Steps and rows of a training against its batch, by McCandlish and others: 1 + 1/x and 1 + x times the fewest.

    x: the batch, compared with the critical one.
    """
    figure, axes = plot(3.0)
    batches = [2 ** (k / 8) for k in range(-32, 33)]
    for number, (name, factors) in enumerate({"steps: 1 + B_crit/B": [1 + 1 / x for x in batches],
                                              "rows in all: 1 + B/B_crit": [1 + x for x in batches]}.items()):
        axes.plot(batches, factors, color=CYCLE[number], linewidth=2, label=f"{name} times the fewest")
    axes.axvline(1, color=FAINT, linewidth=0.8, linestyle=(0, (3, 2)))
    for x, factor in ((1, 2), (4, 1.25), (4, 5)):
        axes.plot(x, factor, "o", color=INK, markersize=5)
        axes.annotate(f"{factor:g}", (x, factor), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", ylim=(0.9, 20), ylabel="steps or rows, times the fewest",
             xlabel="batch size B, compared with the critical one, B_crit")
    axes.set_xticks([2**power for power in range(-4, 5)], [f"1/{2**-power}" if power < 0 else f"{2**power}"
                                                          for power in range(-4, 5)])
    axes.set_yticks([1, 2, 5, 10, 20])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.legend(loc="upper center", frameon=True, framealpha=1, edgecolor="white")
    axes.grid(True)
    return Picture(figure, "Steps and rows of a training against its batch size. At the critical size both are twice the "
                           "fewest; at four times this size the steps are 1.25 times, the rows 5 times the fewest.")
