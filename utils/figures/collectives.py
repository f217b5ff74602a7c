"""Before and after each collective: which rank holds which data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase as LETTERS  # of the data that starts on rank 0, 1, …

from matplotlib.axes import Axes

from utils.figures.colours import FAINT
from utils.figures.shapes import arrow, cell, write
from utils.figures.style import Picture, canvas, styled, text_width_in

Holdings = list[list[str]]  # for each rank, the labels of its chunks; "" where it holds nothing

MOST_RANKS = 8
HEAD_IN, CELL_HEIGHT_IN, ARROW_IN, GAP_IN = 0.55, 0.34, 1.35, 0.1


@dataclass(frozen=True)
class Collective:
    """A collective by its definition: its rule in words, and what n ranks hold before and after (root 0)."""

    rule: str
    before: Callable[[int], Holdings]
    after: Callable[[int], Holdings]


def total(n_ranks: int, chunk: int | str = "") -> str:
    """The label of a sum over all ranks: a0+b0+c0+d0."""
    return "+".join(f"{letter}{chunk}" for letter in LETTERS[:n_ranks])


def _whole(n: int) -> Holdings:
    return [[letter] for letter in LETTERS[:n]]


def _in_chunks(n: int) -> Holdings:
    return [[f"{letter}{chunk}" for chunk in range(n)] for letter in LETTERS[:n]]


def _only_root(n: int, held: list[str]) -> Holdings:
    return [held] + [[""]] * (n - 1)


COLLECTIVES = {
    "broadcast": Collective(
        "every rank ends with the root's data",
        lambda n: _only_root(n, ["a"]), lambda n: [["a"]] * n),
    "scatter": Collective(
        "rank r ends with chunk r of the root's data",
        lambda n: _only_root(n, _in_chunks(n)[0]), lambda n: [[f"a{rank}"] for rank in range(n)]),
    "gather": Collective(
        "the root ends with everybody's data, in the order of the ranks",
        _whole, lambda n: _only_root(n, list(LETTERS[:n]))),
    "reduce": Collective(
        "the root ends with the sum over all ranks",
        _whole, lambda n: _only_root(n, [total(n)])),
    "all_gather": Collective(
        "every rank ends with everybody's data, in the order of the ranks",
        _whole, lambda n: [list(LETTERS[:n])] * n),
    "reduce_scatter": Collective(
        "rank r ends with the sum over all ranks of chunk r",
        _in_chunks, lambda n: [[total(n, rank)] for rank in range(n)]),
    "all_reduce": Collective(
        "every rank ends with the sum over all ranks of every chunk",
        _in_chunks, lambda n: [[total(n, chunk) for chunk in range(n)]] * n),
    "all_to_all": Collective(
        "rank r ends with chunk r of every rank: the table is transposed",
        _in_chunks, lambda n: [[f"{letter}{rank}" for letter in LETTERS[:n]] for rank in range(n)]),
}


def collective_picture(op: str, n_ranks: int = 4) -> Picture:
    """What each of n_ranks holds before and after `op`, by its definition (root 0, sum).

    n_ranks: 2 to 8.
    Raises: ValueError for an unknown collective, with the known ones, or for another number of ranks.
    """
    if op not in COLLECTIVES:
        raise ValueError(f"no collective called {op!r}; known: {', '.join(COLLECTIVES)}")
    if not 2 <= n_ranks <= MOST_RANKS:
        raise ValueError(f"n_ranks must be from 2 to {MOST_RANKS} to be readable; got {n_ranks}")
    known = COLLECTIVES[op]
    return before_after(op, known.before(n_ranks), known.after(n_ranks), rule=known.rule)


@styled
def before_after(name: str, before: Sequence[Sequence[str]], after: Sequence[Sequence[str]],
                 rule: str = "") -> Picture:
    """One column a rank, one cell a chunk, before (left) and after (right).

    before, after: for each rank the labels of its chunks, "" where it holds nothing. The letters of a label are the
    ranks it came from (a is rank 0) and give the cell its colours; rule: a line below on the right, in words.
    Raises: ValueError if before and after have different numbers of ranks.
    """
    if len(before) != len(after):
        raise ValueError(f"before has {len(before)} ranks, after {len(after)}: draw the same ranks twice")
    n_rows = max(len(chunks) for chunks in [*before, *after])
    height_in = HEAD_IN + n_rows * CELL_HEIGHT_IN + (0.42 if rule else 0.15)
    figure, axes = canvas(height_in)
    top_in, side_in = height_in - HEAD_IN, (axes.get_xlim()[1] - 0.4 - ARROW_IN) / 2
    for title, holdings, left_in in [("before", before, 0.2), ("after", after, 0.2 + side_in + ARROW_IN)]:
        write(axes, (left_in, top_in + 0.39), title, ha="left", fontweight="bold")
        _draw_side(axes, holdings, left_in, top_in, side_in)
    middle_in = top_in - n_rows * CELL_HEIGHT_IN / 2
    _draw_arrow(axes, name, 0.2 + side_in, middle_in)
    write(axes, (axes.get_xlim()[1] - 0.2, 0.2), rule, ha="right", color=FAINT)  # below what holds after it
    return Picture(figure, _in_words(name, before, after, rule))


def _draw_side(axes: Axes, holdings: Sequence[Sequence[str]], left_in: float, top_in: float, side_in: float) -> None:
    width = side_in / len(holdings)
    for rank, chunks in enumerate(holdings):
        x = left_in + rank * width
        write(axes, (x + width / 2, top_in + 0.13), f"rank {rank}" if width > 0.55 else str(rank), 8.5)
        for row, label in enumerate(chunks):
            corner = x + GAP_IN / 2, top_in - (row + 1) * CELL_HEIGHT_IN + GAP_IN / 4
            cell(axes, corner, (width - GAP_IN, CELL_HEIGHT_IN - GAP_IN / 2), contributors(label, len(holdings)),
                 (label, _short(label)), fontsize=8.5 if text_width_in(label, 8.5) < width - 0.2 else 7.5)


def contributors(label: str, n_ranks: int) -> set[int]:
    """The ranks whose data a label names: those of its letters; all of them for a Σ."""
    if "Σ" in label:
        return set(range(n_ranks))
    return {rank for rank, letter in enumerate(LETTERS[:n_ranks]) if letter in label.lower()}


def _short(label: str) -> str:
    """Σ0 for a0+b0+c0+d0."""
    return f"Σ{label.split('+')[0][1:]}" if "+" in label else label


def _draw_arrow(axes: Axes, name: str, left_in: float, y: float) -> None:
    size = next((size for size in (9.5, 8.5, 7.5) if text_width_in(name, size) < ARROW_IN - 0.1), 7)
    write(axes, (left_in + ARROW_IN / 2, y + 0.15), name, size, fontweight="bold")
    arrow(axes, (left_in + 0.2, y - 0.05), (left_in + ARROW_IN - 0.2, y - 0.05), head=14, width=2)


def _in_words(name: str, before: Sequence[Sequence[str]], after: Sequence[Sequence[str]], rule: str) -> str:
    def side(holdings: Sequence[Sequence[str]]) -> str:
        return "; ".join(f"rank {rank} {', '.join(filter(None, chunks)) or 'nothing'}"
                         for rank, chunks in enumerate(holdings))

    return f"{name}{': ' * bool(rule)}{rule}. Before: {side(before)}. After: {side(after)}."
