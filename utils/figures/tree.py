"""Broadcast by a binomial tree: its rounds, and how many fewer they are than sending to one rank after another."""

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from utils.figures.shapes import arrow
from utils.figures.style import BLUE, ORANGE, PALE, VERMILLION, Picture, canvas, plot, styled

MOST_RANKS = 32


def tree_rounds(n_ranks: int) -> list[list[tuple[int, int]]]:
    """The sends (source, target) of each round: in round k every rank r < 2^k sends to r + 2^k, if there is one.

    Raises: ValueError for fewer than 1 rank.
    """
    if n_ranks < 1:
        raise ValueError(f"a broadcast needs 1 rank or more; got {n_ranks}")
    starts = [2**k for k in range((n_ranks - 1).bit_length())]
    return [[(rank, rank + start) for rank in range(start) if rank + start < n_ranks] for start in starts]


def naive_rounds(n_ranks: int) -> list[list[tuple[int, int]]]:
    """The sends of each round when rank 0 sends to one rank after another."""
    return [[(0, target)] for target in range(1, n_ranks)]


@styled
def tree_figure(n_ranks: int) -> Picture:
    """The rounds of a binomial-tree broadcast from rank 0, one column a round; filled circles have the data.

    Raises: ValueError for fewer than 2 or more than 32 ranks.
    """
    if not 2 <= n_ranks <= MOST_RANKS:
        raise ValueError(f"a tree is readable with 2 to {MOST_RANKS} ranks; got {n_ranks}")
    rounds, row = tree_rounds(n_ranks), 0.3 if n_ranks <= 16 else 0.17
    figure, axes = canvas(n_ranks * row + 0.95)
    top, column = axes.get_ylim()[1], 7.6 / len(rounds)
    axes.text(0.25, top - 0.22, f"broadcast by a tree: {n_ranks} ranks in {len(rounds)} "
              f"round{'s' * (len(rounds) > 1)}", fontsize=10.5, fontweight="bold", va="center")
    informed = {0}
    for k in range(len(rounds) + 1):
        _draw_column(axes, n_ranks, (1.0 + k * column, top - 0.85), row, informed)
        if k < len(rounds):
            axes.text(1.0 + (k + 0.5) * column, top - 0.55, f"round {k}: +{2**k}", ha="center", va="center")
            _draw_round(axes, rounds[k], (1.0 + k * column, top - 0.85), row, column)
            informed |= {target for _, target in rounds[k]}
    for rank in range(0, n_ranks, 1 if row > 0.25 else 4):
        axes.text(0.8, top - 0.85 - rank * row, f"rank {rank}", ha="right", va="center", fontsize=8.5)
    words = "; ".join(f"round {k}: " + ", ".join(f"{s} to {t}" for s, t in sends) for k, sends in enumerate(rounds))
    return Picture(figure, f"Tree broadcast on {n_ranks} ranks. {words}.")


def _draw_column(axes: Axes, n_ranks: int, top_left: tuple[float, float], row: float, informed: set[int]) -> None:
    x, y = top_left
    colours = [BLUE if rank in informed else PALE for rank in range(n_ranks)]
    axes.scatter([x] * n_ranks, [y - rank * row for rank in range(n_ranks)], s=70 if row > 0.25 else 25, c=colours,
                 zorder=3)


def _draw_round(axes: Axes, sends: list[tuple[int, int]], top_left: tuple[float, float], row: float,
                column: float) -> None:
    x, y = top_left
    for source, target in sends:
        arrow(axes, (x, y - source * row), (x + column, y - target * row), colour=ORANGE, width=1.4,
              head=9, shrink=6 if row > 0.25 else 3.5)


@styled
def broadcast_rounds_figure(most_ranks: int = 64) -> Picture:
    """Rounds of a broadcast against the number of ranks: one after another n − 1, by a tree ⌈log₂ n⌉."""
    ranks = range(2, most_ranks + 1)
    naive, tree = ([len(rounds(n)) for n in ranks] for rounds in (naive_rounds, tree_rounds))
    figure, axes = plot(3.4)
    axes.plot(ranks, naive, color=VERMILLION, linewidth=2)
    axes.plot(ranks, tree, color=BLUE, linewidth=2, drawstyle="steps-mid")
    axes.set(xlabel="ranks n", ylabel="rounds", xlim=(0, most_ranks * 1.02), ylim=(0, None))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")
    axes.annotate("one after another: n − 1", (most_ranks * 0.72, most_ranks * 0.72), xytext=(-12, -2), ha="right",
                  textcoords="offset points", color=VERMILLION)
    axes.annotate("tree: ⌈log₂ n⌉", (most_ranks * 0.72, tree[-1]), xytext=(0, 7),
                  textcoords="offset points", color=BLUE)
    return Picture(figure, f"Rounds of a broadcast to {most_ranks} ranks: {naive[-1]} one after another, "
                           f"{tree[-1]} by a tree.")
