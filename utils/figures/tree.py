"""Broadcast by a binomial tree: its rounds, and how many fewer they are than sending to one rank after another."""

from matplotlib.ticker import MaxNLocator

from utils.figures.colours import BLUE, ORANGE, PALE, VERMILLION
from utils.figures.shapes import Point, arrow, heading, write
from utils.figures.style import Picture, canvas, plot, styled

MOST_RANKS = 32


def tree_rounds(n_ranks: int) -> list[list[tuple[int, int]]]:
    """The sends (source, target) of each round: in round k every rank r < 2^k sends to r + 2^k, if there is one.

    Raises: ValueError for fewer than 1 rank.
    """
    if n_ranks < 1:
        raise ValueError(f"a broadcast needs 1 rank or more; got {n_ranks}")
    starts = [2**k for k in range((n_ranks - 1).bit_length())]
    return [[(rank, rank + start) for rank in range(start) if rank + start < n_ranks] for start in starts]


@styled
def tree_figure(n_ranks: int) -> Picture:
    """The rounds of a binomial-tree broadcast from rank 0, one column a round; filled circles have the data.

    Raises: ValueError for fewer than 2 or more than 32 ranks.
    """
    if not 2 <= n_ranks <= MOST_RANKS:
        raise ValueError(f"a tree is readable with 2 to {MOST_RANKS} ranks; got {n_ranks}")
    rounds = tree_rounds(n_ranks)
    row_in, circle, shrink = (0.3, 70, 6) if n_ranks <= 16 else (0.17, 25, 3.5)
    figure, axes = canvas(n_ranks * row_in + 0.95)
    top, column_in = axes.get_ylim()[1], 7.6 / len(rounds)
    heading(axes, f"broadcast by a tree: {n_ranks} ranks in {len(rounds)} round{'s' * (len(rounds) > 1)}")

    def place(rank: int, column: int) -> Point:
        return 1.0 + column * column_in, top - 0.85 - rank * row_in

    for k, sends in enumerate([*rounds, []]):
        colours = [BLUE if rank < 2**k else PALE for rank in range(n_ranks)]  # after k rounds 2^k ranks have the data
        axes.scatter(*zip(*(place(rank, k) for rank in range(n_ranks)), strict=True), s=circle, c=colours, zorder=3)
        if sends:
            write(axes, (1.0 + (k + 0.5) * column_in, top - 0.55), f"round {k}: +{2**k}")
        for source, target in sends:
            arrow(axes, place(source, k), place(target, k + 1), colour=ORANGE, width=1.4, head=9, shrink=shrink)
    for rank in range(0, n_ranks, 1 if n_ranks <= 16 else 4):
        write(axes, (0.8, place(rank, 0)[1]), f"rank {rank}", 8.5, ha="right")
    words = "; ".join(f"round {k}: " + ", ".join(f"{s} to {t}" for s, t in sends) for k, sends in enumerate(rounds))
    return Picture(figure, f"Tree broadcast on {n_ranks} ranks. {words}.")


@styled
def broadcast_rounds_figure(most_ranks: int = 64) -> Picture:
    """Rounds of a broadcast against the number of ranks: one after another n − 1, by a tree ⌈log₂ n⌉."""
    ranks = range(2, most_ranks + 1)
    naive, tree = [n - 1 for n in ranks], [len(tree_rounds(n)) for n in ranks]
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
