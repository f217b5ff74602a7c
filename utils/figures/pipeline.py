"""Pipeline schedules: one row a rank, a block a step, the bubble left pale."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from utils.figures.colours import BLACK, INK, PALE, STEP_COLOURS, ink_on
from utils.figures.shapes import name_rows, texts, tile, tiles
from utils.figures.style import WIDTH_IN, Picture, first_that_fits, inch_axes, new_figure, styled
from utils.schedules.schedule import KINDS, Fault, Schedule, Step, Times

ROW_IN, PANEL_IN, LEGEND_IN = 0.3, 0.62, 0.32
Colour = tuple[float, float, float]
LIGHTER = 0.55  # how far towards white the second chunk's colours go


def schedule_table(schedule: Schedule, title: str = "") -> Picture:
    """Each rank's steps in their order, one beside the other: who does what, not when."""
    times = {Step(*step): (float(place), place + 1.0) for row in schedule for place, step in enumerate(row)}
    drawn = schedule_grids({title: times}, len(schedule), "each rank's steps, in order", timed=False)
    return Picture(drawn.figure, f"{title or 'Schedule'}: {len(times)} steps on {len(schedule)} ranks, in order; no times.")


def schedule_grid(times: Times, n_ranks: int, title: str = "", label: str = "time") -> Picture:
    """A schedule with times: one row a rank, blocks with the micro-batch's number, idle time pale."""
    return schedule_grids({title: times}, n_ranks, label)


@styled
def faulty_order(schedule: Schedule, fault: Fault) -> Picture:
    """The lists of a schedule that cannot run, in their order, with a frame around the step that is at fault."""
    longest, n_rows = max([len(steps) for steps in schedule] + [1]), max(1, len(schedule))
    figure = new_figure(0.3 + n_rows * ROW_IN)
    axes = inch_axes(figure, 0.75, 0.15, WIDTH_IN - 0.9, n_rows * ROW_IN)
    axes.set_xlim(0, longest)
    name_rows(axes, [f"rank {rank}" for rank in range(n_rows)])
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    _blocks(axes, [(rank, place, place + 1, to_rgb(STEP_COLOURS.get(step.kind, PALE)), f"{step.kind}{step.micro}")
                   for rank, steps in enumerate(schedule) for place, step in enumerate(steps)], (WIDTH_IN - 0.9) / longest)
    for place, step in enumerate(schedule[fault.rank] if fault.rank < len(schedule) else []):
        if step == fault.step:
            tile(axes, (place, fault.rank - 0.43), (1, 0.86), edge=BLACK, linewidth=2.5, zorder=4)
    return Picture(figure, str(fault))


@styled
def schedule_grids(panels: Mapping[str, Times], n_ranks: int, label: str | Sequence[str] = "time",
                   timed: bool = True) -> Picture:
    """Several schedules below each other, such as the predicted one and the measured one.

    panels: title → times of each step; label: of the time axis, one for all or one a panel.
    timed: whether the axis is one of time, with numbers on it and idle time between the blocks.
    All panels have the same scale. Blocks of a rank's second, third… chunk are lighter.
    """
    each_in = PANEL_IN + n_ranks * ROW_IN
    height_in = len(panels) * each_in + LEGEND_IN
    figure = new_figure(height_in)
    right = max((end for times in panels.values() for _, end in times.values()), default=1.0)
    labels = [label] * len(panels) if isinstance(label, str) else list(label)
    for number, ((title, times), text) in enumerate(zip(panels.items(), labels, strict=True)):
        bottom_in = height_in - (number + 1) * each_in
        axes = inch_axes(figure, 0.75, bottom_in + 0.33, WIDTH_IN - 0.9, n_ranks * ROW_IN)
        _draw(axes, times, n_ranks, title, right)
        if not timed:
            axes.set_xticks([])
        axes.annotate(text, (1, 0), xycoords="axes fraction", xytext=(0, -22), textcoords="offset points", ha="right",
                      fontsize=8)
    _legend(figure, panels, timed)
    return Picture(figure, " ".join(_in_words(title, times, n_ranks) for title, times in panels.items()))


def _draw(axes: Axes, times: Times, n_ranks: int, title: str, right: float) -> None:
    makespan = max((end for _, end in times.values()), default=1.0)
    axes.set_xlim(0, right)
    name_rows(axes, [f"rank {rank}" for rank in range(n_ranks)])
    axes.tick_params(length=0, pad=3, labelsize=8)
    axes.spines[:].set_visible(False)
    axes.set_title(title, pad=5, fontsize=9.5)
    axes.barh(range(n_ranks), [makespan] * n_ranks, height=0.86, color=PALE, linewidth=0)
    _blocks(axes, [(stage % n_ranks, start, end, _colour(kind, stage // n_ranks), str(micro))
                   for (kind, micro, stage), (start, end) in times.items()], (WIDTH_IN - 0.9) / right)


def _blocks(axes: Axes, blocks: Sequence[tuple[int, float, float, Colour, str]], inches: float) -> None:
    """Blocks, (row, start, end, colour, text) each, texts where they fit. inches: of a unit of time."""
    tiles(axes, [((start, row - 0.43), (end - start, 0.86), colour) for row, start, end, colour, _ in blocks],
          edgecolor="white", linewidth=0.5, zorder=2)
    texts(axes, [(((start + end) / 2, row), text, ink_on(colour)) for row, start, end, colour, text in blocks
                 if first_that_fits([text], (end - start) * inches, 7.5)], 7.5)


def _colour(kind: str, chunk: int) -> Colour:
    share = 1 - (1 - LIGHTER) ** chunk
    return tuple(part + (1 - part) * share for part in to_rgb(STEP_COLOURS[kind]))


def _legend(figure: Figure, panels: Mapping[str, Times], timed: bool) -> None:
    kinds = [kind for kind in KINDS if any(step[0] == kind for times in panels.values() for step in times)]
    patches = [Patch(facecolor=STEP_COLOURS[kind], label=f"{kind}  {KINDS[kind]}") for kind in kinds]
    if timed:
        patches.append(Patch(facecolor=PALE, label="idle"))
    figure.legend(handles=patches, loc="lower left", ncols=len(patches), fontsize=8, bbox_to_anchor=(0.07, 0.0),
                  labelcolor=INK, handlelength=1.2, columnspacing=1.4)


def _in_words(title: str, times: Times, n_ranks: int) -> str:
    busy = [sum(end - start for step, (start, end) in times.items() if step[2] % n_ranks == rank) for rank in range(n_ranks)]
    makespan = max((end for _, end in times.values()), default=0.0)
    shares = ", ".join(f"rank {rank} {part / makespan:.0%}" for rank, part in enumerate(busy)) if makespan else "nothing"
    return f"{title or 'Schedule'}: {len(times)} steps on {n_ranks} ranks in {makespan:.3g}; busy: {shares}."
