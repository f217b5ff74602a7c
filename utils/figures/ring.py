"""The ring, step by step: who sends which chunk to whom, and what every rank holds after it."""

from dataclasses import dataclass
from math import ceil, cos, pi, sin
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from utils.figures.colours import BLACK, FAINT, rank_colour
from utils.figures.shapes import Point, arrow, heading, slots, tile, write
from utils.figures.style import Picture, canvas, styled, text_width_in

PHASES = ("reduce_scatter", "all_gather")
MOST_RANKS = 8
Holdings = list[list[frozenset[int]]]  # [rank][chunk]: the ranks whose data the chunk contains


class Send(NamedTuple):
    """Rank `source` sends chunk number `chunk` to rank `target`."""

    source: int
    target: int
    chunk: int


@dataclass(frozen=True)
class RingStep:
    """One step of the ring, numbered from 0.

    before, after: [rank][chunk] → the ranks whose data that chunk contains, empty if the rank has no such chunk;
    spent: (rank, chunk) of partial sums that were passed on by then and are not needed any more.
    """

    phase: str
    number: int
    sends: tuple[Send, ...]
    before: Holdings
    after: Holdings
    spent: frozenset[tuple[int, int]]

    @property
    def arrived(self) -> set[tuple[int, int]]:
        """(rank, chunk) of what this step brought."""
        return {(target, chunk) for _, target, chunk in self.sends}


def ring_steps(n_ranks: int, phase: str) -> list[RingStep]:
    """The n_ranks − 1 steps of a ring reduce-scatter, after which rank r owns chunk r, or all-gather, which begins so.

    In step s (from 0) rank r sends to rank r+1: in the reduce-scatter chunk r − s − 1, in the all-gather chunk r − s,
    both modulo n_ranks.
    Raises: ValueError for fewer than 2 ranks or an unknown phase.
    """
    if n_ranks < 2 or phase not in PHASES:
        raise ValueError(f"a ring needs 2 ranks or more and one of the phases {PHASES}; got {n_ranks}, {phase!r}")
    reducing = phase == "reduce_scatter"
    held = ring_start(n_ranks, phase)
    steps, spent = [], set()
    for number in range(n_ranks - 1):
        sends = tuple(Send(r, (r + 1) % n_ranks, (r - number - reducing) % n_ranks) for r in range(n_ranks))
        after = [list(chunks) for chunks in held]
        for source, target, chunk in sends:
            after[target][chunk] = held[target][chunk] | held[source][chunk]
        spent |= {(source, chunk) for source, _, chunk in sends if reducing}
        steps.append(RingStep(phase, number, sends, held, after, frozenset(spent)))
        held = after
    return steps


def ring_start(n_ranks: int, phase: str) -> Holdings:
    """What the ranks hold before the first step: all their own chunks, or only the finished sum of chunk r."""
    everybody, nothing = frozenset(range(n_ranks)), frozenset()
    if phase == "reduce_scatter":
        return [[frozenset({rank})] * n_ranks for rank in range(n_ranks)]
    return [[everybody if rank == chunk else nothing for chunk in range(n_ranks)] for rank in range(n_ranks)]


# ── one step as a ring ──

ROW_IN, BLOCK_IN, HEAD_IN = 0.145, 1.15, 0.22
RADIUS_X_IN = {2: 2.0}  # 3.2 for more
RADIUS_Y_IN = {2: 0.0, 3: 0.85, 4: 1.0, 5: 1.4, 6: 1.8, 7: 2.0, 8: 2.25}


@styled
def ring_figure(n_ranks: int, step: int, phase: str) -> Picture:
    """The ring at one step (from 0): an arrow a send, with the number of its chunk, and what every rank holds after it.

    Each chunk is a row of slots, one for each contributing rank; framed ones have just arrived, faded ones are spent.
    Raises: ValueError for more than 8 ranks or a step that the phase does not have.
    """
    steps = _readable_steps(n_ranks, phase)
    if not 0 <= step < len(steps):
        raise ValueError(f"a ring {phase} of {n_ranks} ranks has steps 0 to {n_ranks - 2}; got {step}")
    block_height, room_for_bends = n_ranks * ROW_IN + HEAD_IN, 0.45 if n_ranks == 2 else 0.0
    places = _places(n_ranks)
    lowest, highest = min(y for _, y in places), max(y for _, y in places)
    figure, axes = canvas(highest - lowest + block_height + 1.25 + room_for_bends)
    centre_y = 0.62 + block_height / 2 - lowest + (0.2 if n_ranks == 2 else 0.0)
    place = f"s = {step}, step {step + 1} of {n_ranks - 1}"
    heading(axes, f"ring {_name(phase)}, {place}: each arrow carries one chunk, by number")
    blocks = [_draw_block(axes, rank, (axes.get_xlim()[1] / 2 + x, centre_y + y), steps[step])
              for rank, (x, y) in enumerate(places)]
    for send in steps[step].sends:
        _draw_send(axes, blocks, send)
    _key(axes, n_ranks, phase)
    return Picture(figure, in_words(steps[step]))


def in_words(step: RingStep) -> str:
    """What a step does, in words."""
    n_ranks = len(step.after)
    sends = "; ".join(f"rank {source} sends chunk {chunk} to rank {target}" for source, target, chunk in step.sends)
    complete = []
    for rank, chunks in enumerate(step.after):
        whole = [str(chunk) for chunk, ranks in enumerate(chunks) if len(ranks) == n_ranks]
        complete.append(f"rank {rank}: {', '.join(whole) or 'none'}")
    return (f"Ring {step.phase} of {n_ranks} ranks, step {step.number + 1} of {n_ranks - 1}: {sends}. "
            f"Complete chunks after it: {'; '.join(complete)}.")


def _places(n_ranks: int) -> list[Point]:
    """Where the ranks stand, clockwise from the upper left, in inches from the middle."""
    angles = [pi / 2 + pi / n_ranks - 2 * pi * rank / n_ranks for rank in range(n_ranks)]
    return [(RADIUS_X_IN.get(n_ranks, 3.2) * cos(angle), RADIUS_Y_IN[n_ranks] * sin(angle)) for angle in angles]


def _draw_block(axes: Axes, rank: int, centre: Point, step: RingStep) -> Rectangle:
    """One rank with its chunks from 0 (top) down; returns its outline, where arrows begin and end."""
    n_ranks, (x, y) = len(step.after), centre
    height = n_ranks * ROW_IN + HEAD_IN
    left, top = x - BLOCK_IN / 2, y + height / 2
    write(axes, (x + 0.07, top - 0.09), f"rank {rank}", 8.5, fontweight="bold")
    for chunk, ranks in enumerate(step.after[rank]):
        bottom = top - HEAD_IN - (chunk + 1) * ROW_IN
        write(axes, (left + 0.12, bottom + ROW_IN / 2), str(chunk), 7.5, ha="right", va="center_baseline")
        slots(axes, (left + 0.17, bottom + 0.01), (BLOCK_IN - 0.17, ROW_IN - 0.02), ranks, n_ranks,
              faded=(rank, chunk) in step.spent, framed=(rank, chunk) in step.arrived)
    return tile(axes, (left - 0.05, top - height - 0.05), (BLOCK_IN + 0.1, height + 0.08))


def _draw_send(axes: Axes, blocks: list[Rectangle], send: Send) -> None:
    source, target = blocks[send.source], blocks[send.target]
    (x0, y0), (x1, y1) = source.get_center(), target.get_center()
    bend = 0.32 if len(blocks) == 2 else 0.0
    arrow(axes, (x0, y0), (x1, y1), width=1.6, bend=-bend, head=13, ends=(source, target))
    middle = (x0 + x1) / 2 - bend * (y1 - y0) / 2, (y0 + y1) / 2 + bend * (x1 - x0) / 2
    if abs(x1 - x0) < BLOCK_IN and abs(y1 - y0) - source.get_height() < 0.7:  # too short to carry its number: beside
        middle = middle[0] + 0.22 * (1 if y1 < y0 else -1), middle[1]
    write(axes, middle, str(send.chunk), 9, fontweight="bold", zorder=6,
          bbox={"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": BLACK})


# ── all steps side by side ──

PANEL_IN, PANELS_A_ROW = 2.18, 4


@styled
def ring_filmstrip(n_ranks: int, phase: str) -> Picture:
    """Every step of the ring side by side, chunks as rows and ranks as columns; arrows are sends.

    Each chunk is a row of slots, one for each contributing rank; framed ones have just arrived, faded ones are spent.
    Raises: ValueError for more than 8 ranks.
    """
    steps = _readable_steps(n_ranks, phase)
    size = min(0.44, (PANEL_IN - 0.4) / n_ranks), min(0.26, 1.7 / n_ranks)
    n_lines, panel_height = ceil(n_ranks / PANELS_A_ROW), n_ranks * size[1] + 0.66
    figure, axes = canvas(n_lines * panel_height + 0.78)
    heading(axes, f"ring {_name(phase)} on {n_ranks} ranks; arrows at the left edge come from rank {n_ranks - 1}")
    top = axes.get_ylim()[1] - 0.45
    start = RingStep(phase, -1, (), steps[0].before, steps[0].before, frozenset())
    for i, step in enumerate([start, *steps]):
        corner = 0.22 + i % PANELS_A_ROW * PANEL_IN, top - i // PANELS_A_ROW * panel_height
        _draw_panel(axes, f"after step s = {i - 1}" if i else "start", step, corner, size)
    _key(axes, n_ranks, phase)
    return Picture(figure, " ".join(map(in_words, steps)))


def _draw_panel(axes: Axes, title: str, step: RingStep, corner: Point, size: Point) -> None:
    """One grid, chunk × rank. corner: upper left; size: of a cell."""
    n_ranks, (width, height) = len(step.after), size
    left, top = corner[0] + 0.24, corner[1] - 0.42
    write(axes, (left, corner[1] - 0.08), title, ha="left")
    write(axes, (left - 0.05, top + 0.09), "chunk", 7.5, ha="right", color=FAINT)
    roomy = text_width_in("rank 0", 7.5) < width - 0.05
    if not roomy:
        write(axes, (left + n_ranks * width, corner[1] - 0.09), "rank →", 7.5, ha="right", color=FAINT)
    for rank, chunks in enumerate(step.after):
        write(axes, (left + (rank + 0.5) * width, top + 0.09), f"rank {rank}" if roomy else str(rank), 7.5)
        write(axes, (left - 0.15, top - (rank + 0.5) * height), str(rank), 7.5, ha="right")  # the chunk of this number
        for chunk, ranks in enumerate(chunks):
            slots(axes, (left + rank * width + 0.02, top - (chunk + 1) * height + 0.02), (width - 0.04, height - 0.04),
                  ranks, n_ranks, faded=(rank, chunk) in step.spent, framed=(rank, chunk) in step.arrived)
    for source, target, chunk in step.sends:
        y = top - (chunk + 0.5) * height
        start = left + (source + 0.5) * width if target else left - 0.11
        arrow(axes, (start, y), (left + (target + 0.3) * width, y), width=1.1, head=7, shrink=0)


# ── shared ──


def _name(phase: str) -> str:
    return phase.replace("_", "-")


def _key(axes: Axes, n_ranks: int, phase: str) -> None:
    """Which colour is which rank's data, on one line below."""
    write(axes, (0.25, 0.2), "strips: data of rank", 8.5, ha="left")
    for rank in range(n_ranks):
        x = 1.75 + rank * 0.36
        tile(axes, (x, 0.14), (0.12, 0.12), rank_colour(rank))
        write(axes, (x + 0.16, 0.2), str(rank), 8.5, ha="left")
    meaning = "framed: just arrived"
    if phase == "reduce_scatter":
        meaning += "     faded: spent, not needed any more"
    write(axes, (8.8, 0.2), meaning, 8.5, ha="right", color=FAINT)


def _readable_steps(n_ranks: int, phase: str) -> list[RingStep]:
    if n_ranks > MOST_RANKS:
        raise ValueError(f"a ring is readable with up to {MOST_RANKS} ranks; got {n_ranks}")
    return ring_steps(n_ranks, phase)
