"""The judge's own look at a schedule: whether it can run, how long it then takes, how much is in flight."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate, pairwise
from typing import Any

from grader.calling.schedules_run import as_schedule
from utils.schedules.faults import (
    MISSING,
    NO_SUCH_MICRO,
    NOT_THIS_RANKS,
    REPEATED,
    SENTENCES,
    STUCK,
    TOO_EARLY,
    UNKNOWN_KIND,
)
from utils.schedules.schedule import Schedule, Shape, Step

IN_FLIGHT = {"F": 1, "B": -1, "I": 0, "W": -1}  # how each kind changes the number of micro-batches in flight
Trouble = tuple[str, Step]  # a word of utils.schedules.faults, and a step that shows it


def read_schedule(returned: Any) -> Schedule:
    """A schedule that a student's function returned.  Raises: ValueError, TypeError if it is none."""
    schedule = as_schedule(returned)
    for step in (step for row in schedule for step in row):
        if not isinstance(step.kind, str) or type(step.micro) is not int or type(step.stage) is not int:
            raise TypeError(f"{step} is no step")
    return schedule


# ── can it run? ──


def trouble_in(schedule: Schedule, shape: Shape) -> Trouble | None:
    """What keeps a schedule, of all ranks together, from running; its steps are counted before their order is looked at."""
    return next(_troubles(schedule, shape), None)


def _troubles(schedule: Schedule, shape: Shape) -> Iterator[Trouble]:
    due = {(stage % shape.n_ranks, Step(kind, micro, stage)) for stage in range(shape.n_stages)
           for micro in range(shape.n_micro) for kind in shape.kinds}
    counts = Counter((rank, step) for rank, row in enumerate(schedule) for step in row)
    for step in (step for rank, step in counts if (rank, step) not in due):
        known = step.kind in shape.kinds
        yield (UNKNOWN_KIND if not known else NOT_THIS_RANKS if 0 <= step.micro < shape.n_micro else NO_SUCH_MICRO), step
    yield from ((REPEATED, step) for (_, step), count in counts.items() if count > 1)
    yield from ((MISSING, step) for _, step in sorted(due - counts.keys()))
    for row in schedule:  # a later kind of the same micro-batch and stage before an earlier one
        yield from ((TOO_EARLY, one) for place, one in enumerate(row) for other in row[place + 1:]
                    if one[1:] == other[1:] and shape.kinds.index(one.kind) > shape.kinds.index(other.kind))
    yield from ((STUCK, step) for step in sorted({step for _, step in due} - _possible(schedule, shape.n_stages).keys()))


def _possible(schedule: Schedule, n_stages: int) -> dict[Step, list[Step]]:
    """What each step waits for, in an order in which they can run; without those that wait in a circle, or for one.

    A micro-batch goes down the line of stages and up again: each step follows one other, and the one before it on its rank.
    """
    up = "I" if any(step.kind == "I" for row in schedule for step in row) else "B"
    line = [("F", stage) for stage in range(n_stages)] + [(up, stage) for stage in reversed(range(n_stages))]
    follows = {b: a for a, b in pairwise(line)} | {("W", stage): ("I", stage) for stage in range(n_stages)}
    waits_for = {}
    for steps in schedule:
        for place, (kind, micro, stage) in enumerate(steps):
            before = [Step(a, micro, at) for a, at in [follows.get((kind, stage), (None, 0))] if a]
            waits_for[steps[place]] = before + steps[max(place - 1, 0):place]
    sorter = TopologicalSorter(waits_for)
    with suppress(CycleError):  # all other steps still become ready
        sorter.prepare()
    order: list[Step] = []
    while sorter.is_active():
        ready = sorter.get_ready()
        order += ready
        sorter.done(*ready)
    return {step: waits_for[step] for step in order}


# ── time and memory of a schedule that can run ──


def makespan_of(schedule: Schedule, n_stages: int, durations: dict[str, float], hop_time: float = 0.0) -> float:
    """When the last step ends, if what comes from another rank takes hop_time on its way."""
    ends: dict[Step, float] = {}
    for step, earlier in _possible(schedule, n_stages).items():
        arrivals = [ends[need] + hop_time * ((need.stage - step.stage) % len(schedule) > 0) for need in earlier]
        ends[step] = max(arrivals, default=0.0) + durations[step.kind]
    return max(ends.values())


def peaks(schedule: Schedule) -> list[int]:
    """For each rank the most micro-batches in flight, counted per stage."""
    return [max(accumulate((IN_FLIGHT[step.kind] for step in steps), initial=0)) for steps in schedule]


def summary(returned: Any, shape: Shape, durations: dict[str, float]) -> dict[str, Any]:
    """What counts of a schedule: what keeps it from running, its makespan without hops, and its peaks."""
    schedule = read_schedule(returned)
    if len(schedule) != shape.n_ranks:
        return {"ranks": len(schedule)}
    trouble = trouble_in(schedule, shape)
    if trouble:
        why, step = trouble
        return {"ranks": len(schedule), "fault": f"{step} {SENTENCES[why]}"}
    return {"ranks": len(schedule), "fault": "", "makespan": makespan_of(schedule, shape.n_stages, durations),
            "in flight at most": peaks(schedule)}
