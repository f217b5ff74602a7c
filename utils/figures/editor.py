"""A pipeline schedule edited by hand: a line of text a rank, explained where it cannot run, else simulated and drawn."""

import html
from collections.abc import Callable, Mapping

import ipywidgets

from utils.figures.pipeline import faulty_order, schedule_grid
from utils.figures.style import Picture, moving_html
from utils.figures.widgets import Interactive
from utils.schedules.schedule import Fault, Schedule, Shape, Timetable, format_schedule, parse_schedule, shape_of


class ScheduleEditor(Interactive):
    """What schedule_editor returns. schedule: what the text says now."""

    @property
    def schedule(self) -> Schedule:
        """The schedule as it is written now.  Raises: ValueError for a word that is no step."""
        return _read(self.controls[0].value)


def schedule_editor(schedule: Schedule, validate: Callable[[Schedule, Shape, list[int] | None], Fault | None],
                    simulate: Callable[[Schedule, dict[str, float], float], Timetable], durations: Mapping[str, float],
                    hop_time: float = 0.0, most: int | None = None, unit: str = "units") -> ScheduleEditor:
    """Edit a schedule: F0 is the forward of micro-batch 0; cut a word and paste it elsewhere in its line.

    The text must remain a schedule of the same ranks, stages and micro-batches. Why it cannot run is said by `validate`,
    which is told that a rank may keep `most` micro-batches in flight; what can run is drawn as `simulate` plays it.
    unit: of the times.
    """
    shape, limits = shape_of(schedule), None if most is None else [most] * len(schedule)
    text = ipywidgets.Textarea(format_schedule(schedule), rows=len(schedule), continuous_update=True,
                               layout={"width": "97%"})
    text.add_class("schedule-text")
    hop = ipywidgets.FloatSlider(hop_time, min=0.0, max=max(durations.values()), step=max(durations.values()) / 40,
                                 description="hop", readout_format=".3g")
    until = ipywidgets.IntSlider(100, min=5, max=100, step=5, description="shown (%)")

    def show(written: str, hop_s: float, percent: int) -> Picture | str:
        try:
            now = _read(written)
        except ValueError as error:
            return f"<p>{html.escape(str(error))}</p>"
        if fault := validate(now, shape, limits):
            return f"<p>This cannot run. {html.escape(str(fault))}.</p>" + moving_html(faulty_order(now, fault))
        return _played(simulate(now, dict(durations), hop_s), len(now), percent, unit)

    editor = ScheduleEditor([text, hop, until], show)
    editor.children += (ipywidgets.HTML("<style>.schedule-text textarea { font-family: monospace; }</style>"),)
    return editor


def _read(written: str) -> Schedule:
    """Blank lines do not count."""
    return parse_schedule(*filter(str.strip, written.splitlines()))


def _played(plan: Timetable, n_ranks: int, percent: int, unit: str) -> Picture:
    """The plan up to a moment, with what it comes to."""
    moment = plan.makespan * percent / 100
    begun = {step: (start, min(end, moment)) for step, (start, end) in plan.times.items() if start < moment}
    title = (f"{plan.makespan:.4g} {unit}, {plan.bubble_rate:.1%} idle; in flight at most "
             f"{', '.join(map(str, plan.peaks))}")
    return schedule_grid(begun, n_ranks, title)
