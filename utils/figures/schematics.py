"""Small schematics for the head of a technique: prefetching, interleaving, recomputation, a ring of keys and values."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from utils.figures.colours import BLUE, FAINT, GREEN, GREY, INK, ORANGE, SKY, STAGE_COLOURS, ink_on, rank_colour
from utils.figures.shapes import arrow, tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, first_that_fits, styled, text_width_in

QKV = "q, k, v (the core's input)"
LANE_IN = 0.3  # height of a row of tiles
NETWORK, COMPUTATION = "network", "computation"
PARTS = (("input", 0.26, BLUE), (QKV, 0.28, GREEN), ("core of attention", 1.02, ORANGE),  # of a block, with inches
         ("the rest", 0.43, GREY))
WAYS = (  # of keeping: name, what a block keeps, bytes of it, what runs in backward once more
    ("keep everything", ("input", QKV, "core of attention", "the rest"), "sbh(34 + 5as/h)", "nothing"),
    ("selective", ("input", QKV, "the rest"), "34 sbh", "the cores of attention"),
    ("full", ("input",), "2 sbh", "every block, one at a time"),
)


@styled
def prefetch_figure(n_layers: int = 4) -> Picture:
    """Gathers and computing of a forward pass, one after the other and with the next layer's gather begun early.

    A gather takes two thirds of the time that a layer computes.  Raises: ValueError unless 2 to 6 layers.
    """
    _require(2 <= n_layers <= 6, f"can draw 2 to 6 layers, not {n_layers}")
    gather, compute = 2.0, 3.0
    runs = {}
    for depth, title in ((0, "gathered when its turn has come: depth 0"),
                         (1, "the next layer is gathered while this one computes: depth 1")):
        arrived, computed, bars = 0.0, 0.0, []
        for layer in range(1, n_layers + 1):
            begun = computed if depth == 0 else max(arrived, computed - compute)
            arrived = begun + gather
            started = max(arrived, computed)
            computed = started + compute
            bars += [(NETWORK, f"gather {layer}", begun, arrived), (COMPUTATION, f"layer {layer}", started, computed)]
        runs[title] = bars
    figure, saved = _two_runs(runs)
    return Picture(figure, f"A forward pass through {n_layers} sharded layers. Gathered only when needed, each layer waits "
                           "for the network. With depth 1 each gather but the first runs while the layer before computes, "
                           f"and the pass takes {saved:.0%} less time; two layers are then gathered at once.")


@styled
def backward_overlap_figure(n_layers: int = 3) -> Picture:
    """Gathers, reductions and computing of a backward pass, each waited for at once, or begun early and waited for late.

    A gather or a reduction takes two fifths of the time that a layer computes.  Raises: ValueError unless 2 to 4 layers.
    """
    _require(2 <= n_layers <= 4, f"can draw 2 to 4 layers, not {n_layers}")
    send, compute = 2.0, 5.0
    runs = {}
    for early, title in ((False, "every hook waits"),
                         (True, "gathers start early, and reductions run while the next layer computes")):
        now, network, bars, gathered = 0.0, 0.0, [], {}  # network: when it has sent all that was begun so far
        for layer in range(n_layers, 0, -1):
            for next_one in ([layer, layer - 1] if early else [layer]):
                if next_one and next_one not in gathered:
                    begun = max(now, network)
                    gathered[next_one] = network = begun + send
                    bars.append((NETWORK, f"g{next_one}", begun, network))
                now = max(now, gathered[layer])
            bars.append((COMPUTATION, f"layer {layer}", now, now + compute))
            now += compute
            begun = max(now, network)
            network = begun + send
            bars.append((NETWORK, f"r{layer}", begun, network))
            if not early:
                now = network
        runs[title] = bars
    figure, saved = _two_runs(runs)
    return Picture(figure, f"A backward pass from sharded layer {n_layers} to layer 1. Where every hook waits, a gather, a "
                           "layer and a reduction come one after another. Begun early, each gather but the first and each "
                           f"reduction but the last run while a layer computes, and the pass takes {saved:.0%} less time.")


def _two_runs(runs: Mapping[str, Sequence[tuple[str, str, float, float]]]) -> tuple[Figure, float]:
    """Two runs on one scale, the slower one above, each with a lane of the network and one of the computation.

    runs: title → bars, as lane, text, begin, end.  Returns also the share of its time that the second one saves.
    """
    figure, axes = canvas(2.75)
    left = 1.2
    ends = [max(end for *_, end in bars) for bars in runs.values()]
    unit_in = (WIDTH_IN - left - 0.3) / max(ends)
    for (title, bars), bottom in zip(runs.items(), (1.45, 0.2), strict=True):
        write(axes, (left, bottom + 0.95), title, 9, ha="left", fontweight="bold")
        lanes = {NETWORK: (bottom + 0.45, SKY), COMPUTATION: (bottom + 0.08, GREEN)}
        for lane, (y, _) in lanes.items():
            write(axes, (left - 0.12, y + LANE_IN / 2), lane, 8.5, ha="right", color=FAINT)
        for lane, name, begin, end in bars:
            (y, colour), width_in = lanes[lane], (end - begin) * unit_in
            tile(axes, (left + begin * unit_in, y), (width_in, LANE_IN), colour, "white", 1)
            text = first_that_fits([name, name.split()[-1]], width_in - 0.06, 8.5)
            write(axes, (left + (begin + end) / 2 * unit_in, y + LANE_IN / 2), text, 8.5, color=ink_on(colour))
    return figure, 1 - ends[1] / ends[0]


@styled
def interleaved_figure(n_ranks: int = 4, n_chunks: int = 2) -> Picture:
    """Which rank has which layers: one stage a rank, and n_chunks thinner ones, with the way to the last rank's first work.

    Raises: ValueError unless 2 to 4 ranks and 2 to 4 chunks.
    """
    _require(2 <= n_ranks <= 4 and 2 <= n_chunks <= 4,
             f"can draw 2 to 4 ranks with 2 to 4 chunks, not {n_ranks} with {n_chunks}")
    n_layers = n_ranks * n_chunks
    figure, axes = canvas(2.65)
    left = 0.25
    layer_in = (WIDTH_IN - 2 * left) / n_layers
    rows = ((1.5, f"one stage per rank: {n_chunks} layers at a time", [layer // n_chunks for layer in range(n_layers)]),
            (0.22, f"{n_chunks} chunks per rank: each micro-batch passes the ranks {n_chunks} times",
             [layer % n_ranks for layer in range(n_layers)]))
    ways = []
    for bottom, title, owners in rows:
        way = owners.index(n_ranks - 1)
        ways.append(way)
        write(axes, (left, bottom + 0.93), title, 9, ha="left", fontweight="bold")
        _owned_layers(axes, owners, (left, bottom), layer_in)
        arrow(axes, (left, bottom + 0.5), (left + way * layer_in, bottom + 0.5), INK, 1.2, head=8, shrink=0)
        write(axes, (left + way * layer_in / 2, bottom + 0.67), f"{way} layers until rank {n_ranks - 1} can begin", 8)
    return Picture(figure, f"{n_layers} layers on {n_ranks} ranks. With one stage per rank the first micro-batch passes "
                           f"{ways[0]} layers before the last rank can begin; with {n_chunks} chunks per rank, dealt out in "
                           f"turn, only {ways[1]}.")


def _owned_layers(axes: Axes, owners: Sequence[int], corner: tuple[float, float], layer_in: float) -> None:
    """Layers side by side, each in the colour of the rank that has it and with its name."""
    for layer, rank in enumerate(owners):
        tile(axes, (corner[0] + layer * layer_in, corner[1]), (layer_in, 0.4), STAGE_COLOURS[rank], "white", 1.4)
        middle = (corner[0] + (layer + 0.5) * layer_in, corner[1] + 0.2)
        write(axes, middle, f"{first_that_fits(['layer ', ''], layer_in - 0.3, 8)}{layer}\nrank {rank}", 8, linespacing=1.2)


@styled
def recompute_figure(n_blocks: int = 3) -> Picture:
    """What each block keeps between forward and backward, three ways, and what backward then runs once more.

    Widths are not bytes; a block's bytes and their letters are those of Korthikanti and others (arXiv 2205.05198).
    Raises: ValueError unless 1 to 3 blocks.
    """
    _require(1 <= n_blocks <= 3, f"can draw 1 to 3 blocks, not {n_blocks}")
    figure, axes = canvas(2.75)
    left, gap, row_in = 1.5, 0.12, 0.62
    block_in = sum(width for _, width, _ in PARTS)
    heads = left + n_blocks * (block_in + gap) + 0.15
    top = len(WAYS) * row_in + 0.5
    for block in range(n_blocks):
        write(axes, (left + block * (block_in + gap) + block_in / 2, top + 0.12), f"block {block}", 8.5, color=FAINT)
    write(axes, (heads, top + 0.12), "a block keeps", 8.5, ha="left", color=FAINT)
    for number, (name, kept, size, again) in enumerate(WAYS):
        bottom = top - (number + 1) * row_in + 0.15
        write(axes, (0.2, bottom + LANE_IN / 2), name, 9, ha="left", fontweight="bold")
        for block in range(n_blocks):
            _block_kept(axes, (left + block * (block_in + gap), bottom), kept)
        write(axes, (heads, bottom + LANE_IN / 2), size, 8, ha="left")
        write(axes, (left, bottom - 0.12), f"runs again in backward: {again}", 8, ha="left", color=FAINT)
    x = left
    for name, _, colour in PARTS:
        tile(axes, (x, 0.12), (0.22, 0.17), colour)
        write(axes, (x + 0.3, 0.205), name, 8.5, ha="left", color=FAINT)
        x += 0.5 + text_width_in(name, 8.5) + 0.2
    tile(axes, (x, 0.12), (0.22, 0.17), edge=GREY, linewidth=0.7, linestyle=(0, (3, 2)))
    write(axes, (x + 0.3, 0.205), "not kept", 8.5, ha="left", color=FAINT)
    told = "; ".join(f"{name}: a block keeps {', '.join(kept)} ({size}), and backward runs again {again}"
                     for name, kept, size, again in WAYS)
    return Picture(figure, f"Activations between forward and backward. {told}.")


def _block_kept(axes: Axes, corner: tuple[float, float], kept: Sequence[str]) -> None:
    """A block's parts side by side, filled where they are kept."""
    x, y = corner
    for name, width, colour in PARTS:
        if name in kept:
            tile(axes, (x, y), (width, LANE_IN), colour, "white", 1)
        else:
            tile(axes, (x + 0.02, y + 0.02), (width - 0.04, LANE_IN - 0.04), edge=GREY, linewidth=0.7, linestyle=(0, (3, 2)))
        x += width


@styled
def ring_attention_figure(n_ranks: int = 4) -> Picture:
    """Whose keys and values each rank has, step by step, beside its own queries.  Raises: ValueError unless 2 to 6 ranks."""
    _require(2 <= n_ranks <= 6, f"can draw 2 to 6 ranks, not {n_ranks}")
    row_in, left, own_in, gap = 0.46, 0.9, 0.62, 0.4
    figure, axes = canvas(n_ranks * row_in + 0.95)
    start = left + own_in + gap
    step_in = (WIDTH_IN - start - 0.2) / n_ranks
    top = 0.45 + n_ranks * row_in
    write(axes, (left + own_in / 2, top + 0.2), "stays", 8.5, color=FAINT)
    for step in range(n_ranks):
        write(axes, (start + (step + 0.4) * step_in, top + 0.2), f"step {step}", 8.5, color=FAINT)
    for rank in range(n_ranks):
        y = top - (rank + 1) * row_in + 0.06
        write(axes, (0.15, y + LANE_IN / 2), f"rank {rank}", 9, ha="left", fontweight="bold")
        _block(axes, (left, y), own_in, f"Q{rank}", rank)
        write(axes, (start - gap / 2, y + LANE_IN / 2), "×", 9.5)
        for step in range(n_ranks):
            owner, x = (rank - step) % n_ranks, start + step * step_in
            _block(axes, (x, y), 0.8 * step_in, f"K{owner} V{owner}", owner)
            if step < n_ranks - 1:
                out = (x + 0.8 * step_in, y + LANE_IN / 2)
                if rank < n_ranks - 1:
                    arrow(axes, out, (x + step_in, out[1] - row_in), GREY, 1.2, head=7, shrink=1)
                else:
                    arrow(axes, out, (out[0] + 0.08 * step_in, out[1] - 0.62 * row_in), GREY, 1.2, head=7, shrink=1)
                    write(axes, (out[0] + 0.1 * step_in, 0.22), "to rank 0", 8, color=FAINT)
    return Picture(figure, f"Ring attention on {n_ranks} ranks. Each rank keeps its queries. In step t rank r computes with "
                           f"the keys and values of rank (r − t) mod {n_ranks}, and passes them on to rank r + 1; after "
                           f"{n_ranks} steps every rank's queries have met all keys and values, and no rank has held more "
                           "than two blocks.")


def _block(axes: Axes, corner: tuple[float, float], width: float, text: str, rank: int) -> None:
    tile(axes, corner, (width, LANE_IN), rank_colour(rank), "white", 1)
    write(axes, (corner[0] + width / 2, corner[1] + LANE_IN / 2), text, 8.5)


def _require(fits: bool, words: str) -> None:
    if not fits:
        raise ValueError(words)
