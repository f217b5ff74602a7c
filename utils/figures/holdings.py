"""A training step played moment by moment: which parameters, gradients and optimizer state each rank holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from utils.figures.bars import COLOURS
from utils.figures.colours import FAINT, INK, PALE, rank_colour
from utils.figures.shapes import tile, tiles, write
from utils.figures.style import WIDTH_IN, Picture, canvas, human_bytes, styled, text_width_in
from utils.figures.traced import BEFORE, HOLDS, Trace

MOST_RANKS = 8
LEFT_IN, HEAD_IN, STRIP_IN, LANE_IN, THICK_IN, BAR_IN, FOOT_IN = 0.8, 0.66, 0.17, 0.23, 0.23, 0.3, 0.86
Tile = tuple[tuple[float, float], tuple[float, float], str]  # corner, size, colour
WHOLE, PIECE, NONE = "whole", "a shard", "none"
NEARLY_ALL = 0.9  # a shard of one of two ranks holds half; a small bias may come or go a moment later than its weight


@dataclass(frozen=True)
class Held:
    """What a rank holds: of each layer's parameters and gradients whole, a piece or none; bytes by category."""

    parameters: tuple[str, ...]
    gradients: tuple[str, ...]
    bytes: Mapping[str, int]


class Holdings:
    """The moments of a watched step, the same on all ranks, each with its picture.

    trace: of a run of 2 to 8 ranks that noted what they held (utils.trace.holdings), all at the same moments.
    most_bytes: what fills a bar; the most that a rank of this run held when None.
    Raises: ValueError for another trace.
    """

    def __init__(self, trace: Trace, most_bytes: float | None = None):
        notes = [_last_step(trace, rank) for rank in range(trace.world_size)]
        self.names = [name for name, _ in notes[0]]
        if not 2 <= trace.world_size <= MOST_RANKS or not self.names:
            raise ValueError(f"can play steps of 2 to {MOST_RANKS} ranks that noted what they held from note({BEFORE!r}) on")
        if any([name for name, _ in rank] != self.names for rank in notes):
            raise ValueError("the ranks noted what they held at different moments")
        self._held = [[held for _, held in rank] for rank in notes]
        self.most_bytes = most_bytes or max(sum(held.bytes.values()) for rank in self._held for held in rank)

    def fullest(self) -> int:
        """The number of the moment at which a rank holds most."""
        return max(range(len(self.names)), key=lambda k: max(sum(rank[k].bytes.values()) for rank in self._held))

    def held(self, rank: int, name: str) -> Held:
        """What a rank holds at the moment of this name."""
        return self._held[rank][self.names.index(name)]

    def picture(self, number: int, title: str = "") -> Picture:
        """The moment of this number, from 0."""
        where = f"{title + ': ' if title else ''}{self.names[number]}"
        return holdings_figure([rank[number] for rank in self._held], where, self.most_bytes)


def _last_step(trace: Trace, rank: int) -> list[tuple[str, Held]]:
    """The notes of a rank from its last BEFORE on."""
    notes: list[tuple[str, Held]] = []
    for span in sorted((s for s in trace.spans if s.rank == rank and s.name.startswith(HOLDS)), key=lambda s: s.start_s):
        name, facts = span.name.removeprefix(HOLDS), span.facts
        held = Held(*(tuple(map(_state, facts[kind])) for kind in ("parameters", "gradients")), facts["bytes"])
        notes = [*([] if name == BEFORE else notes), (name, held)]
    return notes


def _state(share: float) -> str:
    if share >= NEARLY_ALL:
        return WHOLE
    return PIECE if share > 0 else NONE


@styled
def holdings_figure(ranks: Sequence[Held], moment: str, most_bytes: float) -> Picture:
    """A column a rank: a strip a layer, parameters beside hatched gradients, in slots a piece; below, bytes by category."""
    n_layers = len(ranks[0].parameters)
    figure, axes = canvas(HEAD_IN + n_layers * LANE_IN + BAR_IN + FOOT_IN)
    top, column_in = axes.get_ylim()[1] - HEAD_IN, (WIDTH_IN - LEFT_IN - 0.1) / len(ranks)
    write(axes, (0.1, top + HEAD_IN - 0.2), moment, 10.5, ha="left", fontweight="bold")
    for layer in range(n_layers):
        write(axes, (LEFT_IN - 0.1, top - (layer + 0.5) * LANE_IN), f"layer {layer + 1}", 8, ha="right", color=FAINT)
    bottom = top - n_layers * LANE_IN - BAR_IN
    write(axes, (LEFT_IN - 0.1, bottom + BAR_IN / 2 - 0.03), "all bytes", 8, ha="right", color=FAINT)
    slots: list[Tile] = []
    hatched: list[Tile] = []
    for rank, held in enumerate(ranks):
        left, half = LEFT_IN + rank * column_in, column_in / 2 - 0.1
        write(axes, (left + half + 0.03, top + 0.14), f"rank {rank}", 9, fontweight="bold")
        for layer, states in enumerate(zip(held.parameters, held.gradients, strict=True)):
            y = top - (layer + 0.5) * LANE_IN - STRIP_IN / 2
            slots += _slots((left, y), half, states[0], rank, len(ranks))
            gradients = _slots((left + half + 0.06, y), half, states[1], rank, len(ranks))
            slots += gradients
            hatched += [(corner, size, "none") for corner, size, colour in gradients if colour != PALE]
        _bar(axes, (left, bottom), 2 * half + 0.06, held.bytes, most_bytes)
    tiles(axes, slots, edgecolor="white", linewidth=0.7, zorder=2)
    if hatched:
        tiles(axes, hatched, edgecolor=INK, linewidth=0, hatch="//////", zorder=3)
    _key(axes, len(ranks))
    return Picture(figure, f"{moment}. " + " ".join(map(_in_words, range(len(ranks)), ranks)))


def _slots(corner: tuple[float, float], width: float, state: str, rank: int, n_ranks: int) -> list[Tile]:
    """A layer's parameters or gradients on one rank: a slot for each rank's piece, coloured where it is held."""
    (left, bottom), slot = corner, width / n_ranks
    held = {WHOLE: range(n_ranks), PIECE: [rank], NONE: []}[state]
    return [((left + piece * slot, bottom), (slot, STRIP_IN), rank_colour(piece) if piece in held else PALE)
            for piece in range(n_ranks)]


def _bar(axes: Axes, corner: tuple[float, float], width: float, sizes: Mapping[str, int], most_bytes: float) -> None:
    left, bottom = corner
    parts: list[Tile] = [(corner, (width, THICK_IN), PALE)]
    for category, colour in COLOURS.items():
        parts.append(((left, bottom), (width * sizes.get(category, 0) / most_bytes, THICK_IN), colour))
        left += parts[-1][1][0]
    tiles(axes, parts, linewidth=0, zorder=1)
    write(axes, (corner[0] + width / 2, bottom - 0.1), human_bytes(sum(sizes.values())), 8, fontweight="bold")


def _key(axes: Axes, n_ranks: int) -> None:
    """What slots and bars mean, below: a line for the strips and one for the bars, whose colours are others."""
    x, y = LEFT_IN, 0.38
    write(axes, (x - 0.1, y + 0.085), "strips", 8, ha="right", color=FAINT)
    tile(axes, (x, y), (0.22, STRIP_IN), rank_colour(0), zorder=2)
    write(axes, (x + 0.29, y + 0.085), f"parameters, a colour for each of {n_ranks} shards", 8, ha="left", color=FAINT)
    tile(axes, (x + 2.9, y), (0.22, STRIP_IN), rank_colour(0), zorder=2)
    tile(axes, (x + 2.9, y), (0.22, STRIP_IN), edge=INK, hatch="//////", zorder=3)
    write(axes, (x + 3.19, y + 0.085), "gradients", 8, ha="left", color=FAINT)
    y = 0.14
    write(axes, (x - 0.1, y + 0.085), "bars", 8, ha="right", color=FAINT)
    for category, colour in COLOURS.items():
        tile(axes, (x, y), (0.16, STRIP_IN), colour, zorder=2)
        write(axes, (x + 0.22, y + 0.085), category, 8, ha="left", color=FAINT)
        x += 0.22 + text_width_in(category, 8) + 0.2


def _in_words(rank: int, held: Held) -> str:
    parts = []
    for kind, states in (("parameters", held.parameters), ("gradients", held.gradients)):
        by_state = {state: [str(layer) for layer, own in enumerate(states, 1) if own == state] for state in (WHOLE, PIECE)}
        said = [f"{state} of {'layer' if len(layers) == 1 else 'layers'} {', '.join(layers)}"
                for state, layers in by_state.items() if layers]
        parts.append(f"{kind} {' and '.join(said) or NONE} ({human_bytes(held.bytes[kind])})")
    return f"Rank {rank}: {'; '.join(parts)}; optimizer state {human_bytes(held.bytes['optimizer state'])}."
