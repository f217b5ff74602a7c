"""Sliders that teach: the ring step by step, before and after each collective, ring and tree, pipeline schedules, real runs.

Each shows a still picture of the same thing wherever widgets do not run, such as in an exported page.
"""

import html
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import ipywidgets

from utils.figures.collectives import COLLECTIVES, MOST_RANKS, collective_picture
from utils.figures.costs_figures import all_reduce_times_s, ring_or_tree_figure
from utils.figures.experts import routing_figure
from utils.figures.holdings import Holdings
from utils.figures.kept import keep
from utils.figures.long_attention import CUTS, causal_step_figure
from utils.figures.moment import Moments
from utils.figures.pipeline import schedule_grid
from utils.figures.ring import PHASES, ring_figure, ring_filmstrip
from utils.figures.style import Picture, figure_html, human_bytes, moving_html
from utils.figures.tables import Column, Table
from utils.figures.timeline import timeline_figure
from utils.figures.traced import Trace
from utils.schedules.schedule import Schedule, Timetable


class Interactive(ipywidgets.VBox):
    """Controls above a view that follows them.

    controls: widgets with a value, which they keep when their cell is run again; show: called with their values, returns a
    Picture or HTML; stills: makes the pictures shown where widgets do not run, the present one when None.
    """

    def __init__(self, controls: Sequence[ipywidgets.Widget], show: Callable[..., Picture | str],
                 stills: Callable[[], list[Picture]] | None = None):
        self.controls, self._show = tuple(controls), lru_cache(maxsize=64)(show)
        self._stills = stills or (lambda: [self._present()])
        self.view = ipywidgets.HTML()
        keep(self.controls)
        super().__init__([ipywidgets.HBox(self.controls, layout={"flex_flow": "row wrap"}), self.view])
        for control in self.controls:
            control.observe(lambda _: self.refresh(), "value")
        self.refresh()

    def refresh(self) -> None:
        """Draw the view for the present values of the controls."""
        shown = self._present()
        self.view.value = shown if isinstance(shown, str) else moving_html(shown)

    def _present(self) -> Picture | str:
        return self._show(*(control.value for control in self.controls))

    def _repr_mimebundle_(self, **kwargs):
        stills = self._stills()
        still = {"text/html": "".join(map(figure_html, stills)), "text/plain": "\n".join(map(repr, stills))}
        return super()._repr_mimebundle_(**kwargs) | still, {}


def ring_stepper(n_ranks: int = 4) -> Interactive:
    """Step through a ring all-reduce: n − 1 steps of reduce-scatter, then n − 1 of all-gather; 2 to 8 ranks.

    Raises: ValueError for another number of ranks.
    """
    if not 2 <= n_ranks <= MOST_RANKS:
        raise ValueError(f"n_ranks must be from 2 to {MOST_RANKS}; got {n_ranks}")
    step = ipywidgets.IntSlider(1, min=1, max=2 * (n_ranks - 1), description="step")
    ranks = ipywidgets.Dropdown(options=range(2, MOST_RANKS + 1), value=n_ranks, description="ranks")

    def picture(number: int, n: int) -> Picture:
        phase, within = divmod(number - 1, n - 1)
        return ring_figure(n, within, PHASES[phase])

    def follow(change) -> None:
        step.value, step.max = 1, 2 * (change.new - 1)

    ranks.observe(follow, "value")  # before the view does, so that it never sees a step that the ring does not have
    return Interactive([step, ranks], picture, lambda: [ring_filmstrip(ranks.value, phase) for phase in PHASES])


def collective_browser() -> Interactive:
    """Choose a collective and a number of ranks; see what every rank holds before and after it."""
    op = ipywidgets.Dropdown(options=list(COLLECTIVES), value="all_reduce", description="collective")
    ranks = ipywidgets.IntSlider(4, min=2, max=MOST_RANKS, description="ranks")
    return Interactive([op, ranks], collective_picture,
                       lambda: [collective_picture(name, ranks.value) for name in COLLECTIVES])


def cost_calculator() -> Interactive:
    """Ranks, size, latency α and bandwidth 1/β by slider; the time of an all-reduce by a ring and by a tree."""
    ranks = ipywidgets.SelectionSlider(options=[2**k for k in range(1, 11)], value=8, description="ranks")
    size = ipywidgets.SelectionSlider(options=[(human_bytes(2**k), 2**k) for k in range(8, 37)], value=2**24,
                                      description="size")
    alpha_us = ipywidgets.FloatLogSlider(10.0, min=-1, max=3, step=0.1, description="α (µs)", readout_format=".3g")
    speed = ipywidgets.FloatLogSlider(10.0, min=-1, max=3, step=0.1, description="1/β (GB/s)", readout_format=".3g")

    def picture(n: int, total_bytes: int, microseconds: float, gb_per_s: float) -> Picture:
        return ring_or_tree_figure(total_bytes, n, microseconds * 1e-6, 1e-9 / gb_per_s)

    def show(*values) -> str:
        return moving_html(picture(*values)) + cost_table(*values)._repr_html_()

    controls = [ranks, size, alpha_us, speed]
    return Interactive(controls, show, lambda: [picture(*(control.value for control in controls))])


def cost_table(n_ranks: int, total_bytes: float, alpha_us: float, bandwidth_GBps: float) -> Table:
    """Steps, bytes a step and milliseconds of an all-reduce by a ring and by a tree, in the α–β model."""
    times_s = all_reduce_times_s(total_bytes, n_ranks, alpha_us * 1e-6, 1e-9 / bandwidth_GBps)
    steps = 2 * (n_ranks - 1), 2 * (n_ranks - 1).bit_length()
    sizes = total_bytes / n_ranks, total_bytes
    columns = [Column("way", "all-reduce by"), Column("steps"), Column("size", "bytes a step", show=human_bytes),
               Column("time", "time", "ms", show="{:.4g}".format)]
    rows = zip(("ring", "tree"), steps, sizes, [1e3 * time for time in times_s], strict=True)
    return Table(list(rows), columns)


def trace_player(trace: Trace) -> Interactive:
    """Play a real run, or step through it: at each moment what every rank does, and which messages are on their way.

    trace: of a run of up to 16 ranks, such as run_ranks(fn, 4).trace.  Raises: ValueError for another, or one without calls.
    """
    moments = Moments(trace)
    return _player(len(moments.times_s), [], moments.picture, lambda: [timeline_figure(trace)])


def holdings_player(traces: Mapping[str, Trace]) -> Interactive:
    """Play a watched step of each of several runs: which parameters, gradients and optimizer state every rank holds.

    traces: name → the trace of a run whose ranks noted what they held (utils.trace.holdings.watch_layers), all of them at
    the same moments.  Raises: ValueError for other traces, or none.
    """
    most_bytes = max((Holdings(trace).most_bytes for trace in traces.values()), default=0)
    steps = {name: Holdings(trace, most_bytes) for name, trace in traces.items()}
    if len({tuple(step.names) for step in steps.values()}) != 1:
        raise ValueError(f"the runs must be noted at the same moments; got {', '.join(steps) or 'no run'}")
    name = ipywidgets.Dropdown(options=list(steps), description="run")
    return _player(len(steps[name.value].names), [name], lambda number, which: steps[which].picture(number, which),
                   lambda: [step.picture(step.fullest(), which) for which, step in steps.items()])


def causal_player(n_ranks: int = 4) -> Interactive:
    """Ring attention with its causal mask, step by step: whose keys each rank has, and which squares it computes.

    n_ranks: 2 to 8.  Raises: ValueError for another number.
    """
    cut = ipywidgets.Dropdown(options=list(reversed(CUTS)), description="cut")
    return _player(n_ranks, [cut], lambda step, which: causal_step_figure(n_ranks, which == CUTS[1], step),
                   lambda: [causal_step_figure(n_ranks, True, 1)])


def routing_player(experts_Tk: Sequence[Sequence[int]], kept_Tk: Sequence[Sequence[bool]], capacity: int, n_experts: int,
                   n_ranks: int) -> Interactive:
    """Tokens choose experts, all first choices before all second ones: who gets a place, and who comes too late.

    experts_Tk, kept_Tk: each token's experts, and whether it got in, as route() returns them (tensors will do).
    Raises: ValueError for more than 32 tokens or 8 experts, or ranks that do not divide the experts.
    """
    chosen, kept = ([list(map(int, row)) for row in rows] for rows in (experts_Tk, kept_Tk))
    n_choices = sum(map(len, chosen))
    return _player(n_choices + 1, [], lambda number: routing_figure(chosen, kept, capacity, n_experts, n_ranks, number),
                   lambda: [routing_figure(chosen, kept, capacity, n_experts, n_ranks, n_choices)])


def _player(n_moments: int, choices: Sequence[ipywidgets.Widget], show: Callable[..., Picture],
            stills: Callable[[], list[Picture]]) -> Interactive:
    """A button that plays and a slider that steps through moments; the arrow keys move a slider that was clicked."""
    step = ipywidgets.IntSlider(0, min=0, max=n_moments - 1, description="moment", continuous_update=True)
    play = ipywidgets.Play(value=0, min=0, max=n_moments - 1, interval=400)
    ipywidgets.jslink((play, "value"), (step, "value"))
    player = Interactive([step, *choices], show, stills)
    player.children[0].children = (play, step, *choices)
    return player


def schedule_player(generators: dict[str, Callable[[int, int], Schedule]],
                    simulate: Callable[[Schedule, dict[str, float], float], Timetable]) -> Interactive:
    """Choose a schedule, stages, micro-batches and the time of a hop; see its timetable up to a moment.

    generators: name → a function of stages and micro-batches, or of those where it exists (ValueError is shown);
    simulate: plays a schedule for durations by kind (a forward takes 1, a backward 2, in one piece or in two).
    """
    name = ipywidgets.Dropdown(options=list(generators), description="schedule")
    stages = ipywidgets.IntSlider(4, min=1, max=8, description="stages")
    micro = ipywidgets.IntSlider(8, min=1, max=24, description="micro-batches")
    hop = ipywidgets.FloatSlider(0.0, min=0.0, max=1.0, step=0.05, description="hop")
    until = ipywidgets.IntSlider(100, min=5, max=100, step=5, description="shown (%)")
    durations = {"F": 1.0, "B": 2.0, "I": 1.0, "W": 1.0}

    def picture(which: str, n_stages: int, n_micro: int, hop_time: float, percent: int) -> Picture:
        timetable = simulate(generators[which](n_stages, n_micro), durations, hop_time)
        title = (f"{which}: {timetable.makespan:.4g} units, {timetable.bubble_rate:.1%} idle; "
                 f"in flight at most {', '.join(map(str, timetable.peaks))}")
        moment = timetable.makespan * percent / 100
        begun = {step: (start, min(end, moment)) for step, (start, end) in timetable.times.items() if start < moment}
        return schedule_grid(begun, n_stages, title)

    def show(*values) -> Picture | str:
        try:
            return picture(*values)
        except ValueError as error:
            return f"<p>{html.escape(str(error))}</p>"

    return Interactive([name, stages, micro, hop, until], show,
                       lambda: [picture(which, stages.value, micro.value, hop.value, 100) for which in generators])
