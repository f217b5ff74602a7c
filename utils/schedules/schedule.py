"""A pipeline schedule as plain data: what each rank does, in which order. No rank is needed to look at one.

Stage s of a pipeline lives on rank s % n_ranks; micro-batches count from 0.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from utils.schedules.faults import SENTENCES

KINDS = {"F": "forward", "B": "backward", "I": "gradient of the input", "W": "gradient of the weights"}
WHOLE, SPLIT = "FB", "FIW"  # backward in one piece, or in two


class Step(NamedTuple):
    """One piece of work: "F", "B", "I" or "W" (see KINDS) of one micro-batch on one stage."""

    kind: str
    micro: int
    stage: int

    def __str__(self) -> str:
        return f"{self.kind}{self.micro} on stage {self.stage}"


Schedule = list[list[Step]]  # for each rank its steps, in order
Times = dict[Step, tuple[float, float]]  # when each step starts and ends


class Shape(NamedTuple):
    """How large a pipeline is. kinds: "FB", or "FIW" where backward comes in two pieces."""

    n_ranks: int
    n_stages: int
    n_micro: int
    kinds: str = WHOLE


class Fault(NamedTuple):
    """What is wrong with a schedule: the rank, the step, and why (see utils.schedules.faults).  str() makes a sentence."""

    rank: int
    step: Step
    why: str

    def __str__(self) -> str:
        step = Step(*self.step)
        return f"rank {self.rank}: {step} {SENTENCES.get(self.why, f'is wrong: {self.why}')}"


class Timetable(NamedTuple):
    """A schedule with times. peaks: for each rank, how many micro-batches were in flight on it at most (times stages)."""

    times: Times
    makespan: float
    bubble_rate: float
    peaks: list[int]


def parse_schedule(*rows: str) -> Schedule:
    """A schedule from text, a row a rank: parse_schedule("F0 F1 B0 B1", "F0 B0 F1 B1").

    "F2" is micro-batch 2 on the stage with the rank's own number, "F2.5" on stage 5.
    Raises: ValueError for a word that is not such a step.
    """
    return [[_step(word, rank) for word in row.split()] for rank, row in enumerate(rows)]


def _step(word: str, rank: int) -> Step:
    micro, _, stage = word[1:].partition(".")
    if not word[0].isalpha() or not micro.isdigit() or not (stage or "0").isdigit():
        raise ValueError(f"{word!r} is no step; expected a letter and a micro-batch such as F2, or with a stage, F2.5")
    return Step(word[0], int(micro), int(stage) if stage else rank)


def format_schedule(schedule: Schedule) -> str:
    """The text that `parse_schedule` reads, a line a rank."""
    return "\n".join(" ".join(f"{kind}{micro}" + f".{stage}" * (stage != rank) for kind, micro, stage in steps)
                     for rank, steps in enumerate(schedule))


def shape_of(schedule: Schedule) -> Shape:
    """The shape that a schedule seems to have: as many stages and micro-batches as its steps name."""
    steps = [Step(*step) for row in schedule for step in row]
    kinds = SPLIT if any(step.kind in "IW" for step in steps) else WHOLE
    return Shape(len(schedule), max((s.stage for s in steps), default=-1) + 1,
                 max((s.micro for s in steps), default=-1) + 1, kinds)


class HasSpans(Protocol):
    """A trace, as far as times of steps need it: the room of traces needs, by its figures, this one."""

    spans: Iterable[Any]


def measured_times(trace: HasSpans) -> Times:
    """When ranks did each step (the last time), from the spans named str(step) of a run; seconds since the first start.

    Raises: ValueError if there is no such span.
    """
    times = {}
    for span in trace.spans:
        match = _NAME.fullmatch(span.name)
        if match:
            times[Step(match[1], int(match[2]), int(match[3]))] = span.start_s, span.end_s
    if not times:
        raise ValueError("no step was found in the trace: let each step compute inside `with span(str(step)):`")
    first = min(start for start, _ in times.values())
    return {step: (start - first, end - first) for step, (start, end) in times.items()}


_NAME = re.compile(r"([A-Z])(\d+) on stage (\d+)")  # str(step)


def order_of(times: Times, n_ranks: int) -> Schedule:
    """The steps of each rank in the order in which they began."""
    rows: Schedule = [[] for _ in range(n_ranks)]
    for step in sorted(times, key=lambda step: times[step]):
        rows[step.stage % n_ranks].append(step)
    return rows
