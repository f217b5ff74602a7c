"""ZeRO-3 from moment to moment: which pieces of each layer stand on which rank, while layers compute and in between."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from utils.figures.colours import BLUE, FAINT, INK, PALE, VERMILLION, rank_colour
from utils.figures.shapes import arrow, tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, styled

LEFT_IN, RIGHT_IN, LANE_GAP_IN, HEADER_IN, FOOTER_IN = 1.25, 0.15, 0.16, 1.12, 1.12
STRIP_IN, STRIP_GAP_IN, GAP_IN = 0.17, 0.05, 0.1  # height of a layer's strip; between strips; between columns
FEWEST, MOST_RANKS, MOST_LAYERS = 2, 4, 3
REST, FORWARD, BACKWARD = "at rest", "forward", "backward"
WHOLE, PIECE, NONE = "whole", "piece", "none"


@dataclass(frozen=True)
class Moment:
    """What every rank does (computes `layer` forward or backward, or rests), and whose gradients are reduced by then.

    layer: counted from 1, None at rest; reduced: the layers from this one up have their mean gradient's pieces.
    """

    phase: str
    layer: int | None
    reduced: int

    def parameters(self, layer: int) -> str:
        """How a rank holds the layer's parameters: whole while they are computed with."""
        return WHOLE if layer == self.layer else PIECE

    def gradients(self, layer: int) -> str:
        """And its gradients: whole in its own backward, a piece afterwards."""
        if layer == self.layer and self.phase == BACKWARD:
            return WHOLE
        return PIECE if layer >= self.reduced else NONE


def moments_of_a_pass(n_layers: int) -> list[Moment]:
    """At rest; forward through the layers; backward through them; at rest with gradients."""
    none_yet = n_layers + 1
    return [Moment(REST, None, none_yet), *(Moment(FORWARD, layer, none_yet) for layer in range(1, n_layers + 1)),
            *(Moment(BACKWARD, layer, layer + 1) for layer in range(n_layers, 0, -1)), Moment(REST, None, 1)]


@styled
def gather_free_figure(n_ranks: int = 3, n_layers: int = 3) -> Picture:
    """Who holds what in one pass of ZeRO-3: a lane for each rank, a column for each moment, a strip for each layer.

    A strip has a slot for each rank's piece, parameters (plain) beside gradients (hatched); empty slots hold nothing.
    Nothing is prefetched. Raises: ValueError unless 2 to 4 ranks and 2 or 3 layers.
    """
    if not (FEWEST <= n_ranks <= MOST_RANKS and FEWEST <= n_layers <= MOST_LAYERS):
        raise ValueError(f"can draw {FEWEST} to {MOST_RANKS} ranks and {FEWEST} to {MOST_LAYERS} layers, "
                         f"not {n_ranks} ranks and {n_layers} layers")
    moments = moments_of_a_pass(n_layers)
    lane_in = n_layers * (STRIP_IN + STRIP_GAP_IN) + LANE_GAP_IN
    figure, axes = canvas(HEADER_IN + n_ranks * lane_in + FOOTER_IN)
    column_in = (WIDTH_IN - LEFT_IN - RIGHT_IN) / len(moments)
    for number, moment in enumerate(moments):
        left = LEFT_IN + number * column_in
        _name_moment(axes, moment, left + (column_in - GAP_IN) / 2, n_ranks * lane_in + FOOTER_IN)
        for rank in range(n_ranks):
            for layer in range(1, n_layers + 1):
                bottom = FOOTER_IN + (n_ranks - rank) * lane_in - layer * (STRIP_IN + STRIP_GAP_IN)
                _strip(axes, (left, bottom), column_in - GAP_IN, moment, layer, rank, n_ranks)
    _name_lanes(axes, n_ranks, n_layers, lane_in)
    _name_phases(axes, n_layers, column_in, n_ranks * lane_in + FOOTER_IN)
    _key(axes, n_ranks)
    return Picture(figure, _in_words(moments, n_ranks))


def _name_moment(axes: Axes, moment: Moment, middle: float, top: float) -> None:
    """Which layer computes, what comes before it (above) and after it (below)."""
    if moment.layer is None:
        write(axes, (middle, top + 0.16), moment.phase, 8.5, color=FAINT)
        return
    write(axes, (middle, top + 0.56), f"layer {moment.layer}", 9, fontweight="bold")
    write(axes, (middle, top + 0.34), "all-gather", 8)
    arrow(axes, (middle, top + 0.25), (middle, top), INK, 1.2, head=8, shrink=1)
    arrow(axes, (middle, FOOTER_IN), (middle, FOOTER_IN - 0.25), INK, 1.2, head=8, shrink=1)
    after = ("free",) if moment.phase == FORWARD else ("reduce-scatter", "and free")
    for line, text in enumerate(after):
        write(axes, (middle, FOOTER_IN - 0.34 - 0.15 * line), text, 8)


def _strip(axes: Axes, corner: tuple[float, float], width: float, moment: Moment, layer: int, rank: int,
           n_ranks: int) -> None:
    """One layer on one rank: slots of its parameters, then slots of its gradients."""
    (left, bottom), slot = corner, width / (2 * n_ranks + 0.5)
    for of_gradients, state in ((False, moment.parameters(layer)), (True, moment.gradients(layer))):
        start = left + of_gradients * (n_ranks + 0.5) * slot
        held = {WHOLE: range(n_ranks), PIECE: [rank], NONE: []}[state]
        _slots(axes, (start, bottom), slot, held, n_ranks, hatched=of_gradients)
        if state == WHOLE:
            tile(axes, (start, bottom), (n_ranks * slot, STRIP_IN), edge=INK, linewidth=1.3, zorder=5)


def _slots(axes: Axes, corner: tuple[float, float], slot: float, held: Sequence[int], n_slots: int, hatched: bool) -> None:
    left, bottom = corner
    for piece in range(n_slots):
        at, size = (left + piece * slot, bottom), (slot, STRIP_IN)
        tile(axes, at, size, rank_colour(piece) if piece in held else PALE, zorder=2)
        if hatched and piece in held:
            tile(axes, at, size, edge=INK, hatch="//////", zorder=3)
        tile(axes, at, size, edge="white", linewidth=0.8, zorder=4)


def _name_lanes(axes: Axes, n_ranks: int, n_layers: int, lane_in: float) -> None:
    for rank in range(n_ranks):
        top = FOOTER_IN + (n_ranks - rank) * lane_in
        write(axes, (0.2, top - n_layers * (STRIP_IN + STRIP_GAP_IN) / 2), f"rank {rank}", 9.5, ha="left", fontweight="bold")
        for layer in range(1, n_layers + 1):
            middle = top - layer * (STRIP_IN + STRIP_GAP_IN) + STRIP_IN / 2
            write(axes, (LEFT_IN - 0.08, middle), f"layer {layer}", 7.5, ha="right", color=FAINT)


def _name_phases(axes: Axes, n_layers: int, column_in: float, top: float) -> None:
    """An arrow above the columns of each pass."""
    for number, text in enumerate(("forward: each rank on its own rows", "backward: each rank on its own rows")):
        left = LEFT_IN + (1 + number * n_layers) * column_in
        right = left + n_layers * column_in - GAP_IN
        write(axes, ((left + right) / 2, top + 0.98), text, 9)
        arrow(axes, (left, top + 0.78), (right, top + 0.78), FAINT, 1.2, shrink=0)


def _key(axes: Axes, n_ranks: int) -> None:
    """What colours and hatching mean, below."""
    x, wide = 0.2, 0.22
    for piece in range(n_ranks):
        tile(axes, (x, 0.13), (wide, STRIP_IN), rank_colour(piece), zorder=2)
        write(axes, (x + wide + 0.07, 0.215), f"shard {piece}", 8.5, ha="left", color=FAINT)
        x += 0.85
    others = (PALE, "", "not held", 0.95), ("white", "//////", "gradients (plain: parameters)", 2.3)
    for colour, hatch, text, room in others:
        tile(axes, (x, 0.13), (wide, STRIP_IN), colour, zorder=2)
        tile(axes, (x, 0.13), (wide, STRIP_IN), edge=INK if hatch else "none", hatch=hatch, zorder=3)
        write(axes, (x + wide + 0.07, 0.215), text, 8.5, ha="left", color=FAINT)
        x += room
    tile(axes, (x, 0.13), (wide, STRIP_IN), edge=INK, linewidth=1.3)
    write(axes, (x + wide + 0.07, 0.215), "whole", 8.5, ha="left", color=FAINT)


def _in_words(moments: Sequence[Moment], n_ranks: int) -> str:
    n_layers = len(moments) // 2 - 1
    told = "; ".join(
        f"{moment.phase}, layer {moment.layer}: all-gather it, compute, "
        + ("free it" if moment.phase == FORWARD else "reduce-scatter its gradient and free both")
        for moment in moments if moment.layer)
    return (f"One pass of ZeRO-3 through {n_layers} layers on {n_ranks} ranks. At rest each rank holds one shard of every "
            f"layer. {told}. In the end each rank holds its shard of every layer and of every mean gradient.")


@styled
def hybrid_figure(n_nodes: int = 2, n_ranks: int = 4) -> Picture:
    """Hybrid sharding: which shard each rank of each node holds, and who makes which collectives with whom, and how many
    elements a rank sends in them.

    n_ranks: of one node.  Raises: ValueError unless 2 or 3 nodes of 2 to 4 ranks.
    """
    if not (FEWEST <= n_nodes <= MOST_LAYERS and FEWEST <= n_ranks <= MOST_RANKS):
        raise ValueError(f"can draw 2 or 3 nodes of 2 to 4 ranks, not {n_nodes} of {n_ranks}")
    left, wide, high, row_in = 1.1, 1.25, 0.5, 1.25
    figure, axes = canvas(n_nodes * row_in + 0.45)
    middles = [left + (rank + 0.5) * wide for rank in range(n_ranks)]
    right = left + n_ranks * wide + 0.2
    for node in range(n_nodes):
        bottom = 0.95 + (n_nodes - 1 - node) * row_in
        write(axes, (0.2, bottom + high / 2), f"node {node}", 9.5, ha="left", fontweight="bold")
        tile(axes, (left - 0.05, bottom - 0.32), (n_ranks * wide + 0.1, high + 0.4), edge=FAINT, linewidth=0.8)
        for shard, middle in enumerate(middles):
            tile(axes, (middle - wide / 2 + 0.06, bottom), (wide - 0.12, high), rank_colour(shard))
            write(axes, (middle, bottom + high / 2), f"rank {node * n_ranks + shard}\nshard {shard}", 8.5, linespacing=1.2)
            if node:
                _both_ways(axes, (middle, bottom + high + 0.1), (middle, bottom + row_in - 0.34), VERMILLION)
            if node and shard == n_ranks - 1:
                between = (right, bottom + (high + row_in) / 2 - 0.12)
                write(axes, between, "2(k−1)/k · Ψ/n_node", 9.5, ha="left", color=VERMILLION)
        _both_ways(axes, (middles[0], bottom - 0.16), (middles[-1], bottom - 0.16), BLUE)
        write(axes, (right, bottom - 0.16), "3(n_node−1)/n_node · Ψ", 9.5, ha="left", color=BLUE)
    keys = ((BLUE, left, "inside a node: all-gather layers, reduce-scatter gradients"),
            (VERMILLION, left + 4.4, "across nodes: all-reduce shards"))
    for colour, at, text in keys:
        _both_ways(axes, (at, 0.25), (at + 0.4, 0.25), colour)
        write(axes, (at + 0.5, 0.25), text, 8.5, ha="left", color=FAINT)
    return Picture(figure, f"Hybrid sharding on {n_nodes} nodes of {n_ranks} ranks. Rank r of every node holds shard r. The "
                           "ranks of a node all-gather layers and reduce-scatter gradients; the ranks of all nodes with the "
                           "same shard all-reduce their shards of the gradients. A rank sends 3(n_node−1)/n_node · Ψ "
                           "elements inside its node and 2(k−1)/k · Ψ/n_node across the k nodes.")


def _both_ways(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    for one, other in ((start, end), (end, start)):
        arrow(axes, one, other, colour, 1.6, head=8, shrink=0)
