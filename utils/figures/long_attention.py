"""Causal attention over a sequence in shards: which squares each rank computes, and how much it sends."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Polygon

from utils.figures.colours import CYCLE, FAINT, PALE, series_look
from utils.figures.shapes import bar, name_rows, tile, write
from utils.figures.style import Picture, new_figure, styled

CUTS = ("cut in order", "zigzag cut")
Panels = Mapping[str, Mapping[str, Mapping[int, float]]]  # title → way → ranks → what each rank sends


def owners(n_ranks: int, zigzag: bool) -> list[int]:
    """The rank that has each of the 2n chunks of the sequence."""
    return [min(i, 2 * n_ranks - 1 - i) if zigzag else i // 2 for i in range(2 * n_ranks)]


def squares_per_step(n_ranks: int, zigzag: bool) -> list[list[float]]:
    """Squares of chunk × chunk that are computed: a row for each rank, a column for each step of the ring; one on the
    diagonal is half seen and counts as half."""
    chunks = owners(n_ranks, zigzag)
    of_rank = [[i for i, owner in enumerate(chunks) if owner == rank] for rank in range(n_ranks)]
    return [[sum(1.0 if key < query else 0.5 * (key == query) for query in of_rank[rank]
                 for key in of_rank[(rank - step) % n_ranks]) for step in range(n_ranks)] for rank in range(n_ranks)]


@styled
def causal_work_figure(n_ranks: int = 4) -> Picture:
    """Queries × keys in chunks, coloured by the rank that computes them: cut in order, and in zigzag.

    Beside each: the squares that each rank computes, step by step. A step lasts as long as its slowest rank.
    Raises: ValueError unless there are 2 to 8 ranks.
    """
    if not 2 <= n_ranks <= len(CYCLE):
        raise ValueError(f"n_ranks must be from 2 to {len(CYCLE)}; got {n_ranks}")
    figure = new_figure(2.7, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    grids = figure.subplots(1, 4, width_ratios=(1, 0.8, 1, 0.8))
    words = []
    for number, title in enumerate(CUTS):
        _draw_map(grids[2 * number], owners(n_ranks, number == 1), title)
        steps = squares_per_step(n_ranks, number == 1)
        _draw_steps(grids[2 * number + 1], steps)
        slowest = sum(map(max, zip(*steps, strict=True)))
        words.append(f"{title}: " + ", ".join(f"rank {r} {sum(row):g}" for r, row in enumerate(steps))
                     + f"; if every step waits for its slowest rank, {slowest:g}")
    return Picture(figure, "Squares of causal attention by rank. " + ". ".join(words) + ".")


@styled
def causal_step_figure(n_ranks: int, zigzag: bool, step: int) -> Picture:
    """The same map at one step of the ring: squares of this step in colour, those done before pale, those to come empty.

    step: 0 to n − 1; rank r then has the keys of rank r − step.  Raises: ValueError for other ranks or steps.
    """
    if not 2 <= n_ranks <= len(CYCLE) or not 0 <= step < n_ranks:
        raise ValueError(f"2 to {len(CYCLE)} ranks and a step from 0 to n − 1, please; got {n_ranks} ranks, step {step}")
    chunks = owners(n_ranks, zigzag)
    figure = new_figure(3.4, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    grid, table = figure.subplots(1, 2, width_ratios=(1, 1.3))
    _draw_map(grid, chunks, f"{CUTS[zigzag]}: step {step} (of 0 to {n_ranks - 1})",
              lambda query, key: (chunks[query] - chunks[key]) % n_ranks - step)
    table.axis("off")
    table.set(xlim=(0, 1), ylim=(n_ranks + 1.5, -1))
    done = [row[step] for row in squares_per_step(n_ranks, zigzag)]
    said = []
    for rank, squares in enumerate(done):
        source = (rank - step) % n_ranks
        keys = " and ".join(str(i) for i, owner in enumerate(chunks) if owner == source)
        work = f"{squares:g} squares" if squares else "sees none"
        said.append(f"rank {rank}: keys of rank {source} (chunks {keys}), {work}")
        tile(table, (0.02, rank - 0.3), (0.03, 0.6), CYCLE[rank])
        write(table, (0.08, rank), said[-1], 9, ha="left")
    idle = sum(max(done) - squares for squares in done)
    said.append(f"this step lasts as long as {max(done):g} squares; " + (
        f"ranks idle for {idle:g} of {n_ranks * max(done):g}" if idle else "no rank idles"))
    write(table, (0.08, n_ranks), said[-1], 9, ha="left", fontweight="bold")
    write(table, (0.08, n_ranks + 0.8), "pale: computed in an earlier step; grey: still to come", 9, ha="left", color=FAINT)
    return Picture(figure, f"Ring attention, causal, {CUTS[zigzag]}, step {step} of {n_ranks - 1}. {'; '.join(said)}.")


def _draw_map(axes: Axes, chunks: Sequence[int], title: str,
              when: Callable[[int, int], int] = lambda query, key: 0) -> None:
    """when(query, key): below 0 for a square that was computed before, above 0 for one to come."""
    size = len(chunks)
    for query, rank in enumerate(chunks):
        for key in range(query + 1):
            moment = when(query, key)
            look = {"facecolor": PALE if moment > 0 else CYCLE[rank], "alpha": 0.25 if moment < 0 else 1.0,
                    "edgecolor": "white", "linewidth": 1}
            corners = [(key, query), (key, query + 1), (key + 1, query + 1), (key + 1, query)]
            axes.add_patch(Polygon(corners[:3 if key == query else 4], **look))
        write(axes, (query + 0.62, query + 0.3), f"{rank}" if query else f"rank {rank}", 8, ha="left", color=FAINT)
    axes.set(xlim=(0, size), ylim=(size, 0), aspect="equal", title=title, xlabel="chunk of keys", ylabel="chunk of queries")
    ticks = [i + 0.5 for i in range(size)]
    axes.set_xticks(ticks, range(size))
    axes.set_yticks(ticks, range(size))
    axes.tick_params(length=0)


def _draw_steps(axes: Axes, steps: Sequence[Sequence[float]]) -> None:
    for rank, row in enumerate(steps):
        left = 0.0
        for squares, of_all_ranks in zip(row, zip(*steps, strict=True), strict=True):
            longest = max(of_all_ranks)
            axes.barh(rank, longest, left=left, height=0.7, color=PALE)
            bar(axes, rank, (left, left + squares), CYCLE[rank], f"{squares:g}" if squares else "", 8, height=0.7)
            left += longest
            axes.axvline(left, color=FAINT, linewidth=0.6)
    axes.set(xlabel="squares, step by step")
    name_rows(axes, [f"rank {rank}" for rank in range(len(steps))])


@styled
def sent_by_ranks_figure(panels: Panels, measured: Panels) -> Picture:
    """What a rank sends against the number of ranks: side by side a panel for each title, in it a line for each way.

    panels, measured: title → name of a way → number of ranks → what each rank sends, in sizes of the whole q;
    measured ones are drawn as crosses.
    Raises: ValueError without panels.
    """
    if not panels:
        raise ValueError("sent_by_ranks_figure needs one or more {title: {name: {ranks: amount}}}")
    figure = new_figure(3.0, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, ways) in zip(grid, panels.items(), strict=True):
        for number, (name, sent) in enumerate(ways.items()):
            axes.plot(list(sent), list(sent.values()), label=name, markersize=5, **series_look(number))
            found = measured.get(title, {}).get(name, {})
            axes.plot(list(found), list(found.values()), linestyle="none", marker="x", markersize=9, color="black",
                      label="measured" if found and number == len(ways) - 1 else None)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        ticks = sorted({n for sent in ways.values() for n in sent})
        axes.set(xlabel="ranks", title=title, xticks=[n for n in ticks if n & (n - 1) == 0])
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.grid(True)
    grid[0].set_ylabel("sent by a rank, in sizes\nof the whole q (log scale)")
    grid[0].legend(loc="best")
    return Picture(figure, "Sent by each rank. " + ". ".join(f"{title}: " + "; ".join(
        f"{name} " + ", ".join(f"{amount:.2f} on {n}" for n, amount in sent.items()) for name, sent in ways.items())
        for title, ways in panels.items()) + ".")
