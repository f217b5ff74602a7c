"""The judge's own look at a schedule: whether it can run, how long it then takes, how much is in flight."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from typing import Any

from grader.calling.schedules_run import as_schedule
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, STUCK, TOO_EARLY, UNKNOWN_KIND
from utils.schedules.schedule import Fault, Schedule, Shape, Step

Needs = dict[str, list[tuple[str, int]]]  # of each kind: (kind of a step that it needs, how many stages further on)
NEEDS: Needs = {"F": [("F", -1)], "B": [("F", 0), ("B", +1)], "I": [("F", 0), ("I", +1)], "W": [("I", 0)]}
IN_FLIGHT = {"F": 1, "B": -1, "I": 0, "W": -1}  # how each kind changes the number of micro-batches in flight


def read_schedule(returned: Any) -> Schedule:
    """A schedule that a student's function returned.  Raises: ValueError, TypeError if it is none."""
    schedule = as_schedule(returned)
    for step in (step for row in schedule for step in row):
        if not isinstance(step.kind, str) or type(step.micro) is not int or type(step.stage) is not int:
            raise TypeError(f"{step} is no step")
    return schedule


def needs(step: Step, n_stages: int, of_kinds: Needs = NEEDS) -> list[Step]:
    return [Step(kind, step.micro, step.stage + further) for kind, further in of_kinds[step.kind]
            if 0 <= step.stage + further < n_stages]


# ── faults ──


def rank_faults(steps: Sequence[Step], rank: int, shape: Shape) -> Iterator[Fault]:
    """All faults of one rank's list, in the order in which they are looked for."""
    stages = range(rank, shape.n_stages, shape.n_ranks)
    for step in steps:
        for why, wrong in ((UNKNOWN_KIND, step.kind not in shape.kinds),
                           (NO_SUCH_MICRO, not 0 <= step.micro < shape.n_micro),
                           (NOT_THIS_RANKS, step.stage not in stages)):
            if wrong:
                yield Fault(rank, step, why)
    for place, step in enumerate(steps):
        if step in steps[:place]:
            yield Fault(rank, step, REPEATED)
    for step in (Step(k, m, s) for s in stages for m in range(shape.n_micro) for k in shape.kinds):
        if step not in steps:
            yield Fault(rank, step, MISSING)
    for place, step in enumerate(steps):
        for need in needs(step, shape.n_stages) if step.kind in shape.kinds else ():
            if need.stage in stages and need not in steps[:place]:
                yield Fault(rank, step, TOO_EARLY)


def own_fault(schedule: Schedule, shape: Shape) -> Fault | None:
    """The first fault within one rank's list; a rank without a list does nothing."""
    lists = [*schedule, *([] for _ in range(shape.n_ranks - len(schedule)))]
    return next((fault for rank, steps in enumerate(lists) for fault in rank_faults(steps, rank, shape)), None)


def fault_of(schedule: Schedule, shape: Shape) -> Fault | None:
    """The first thing that is wrong with a schedule, within a rank or between ranks."""
    return own_fault(schedule, shape) or _stuck_fault(schedule, shape)


def _stuck_fault(schedule: Schedule, shape: Shape) -> Fault | None:
    """Of a schedule without faults within its ranks: the first step of the first rank that can never start."""
    possible = _possible(schedule, shape.n_stages)
    stuck = (Fault(rank, step, STUCK) for rank, steps in enumerate(schedule) for step in steps if step not in possible)
    return next(stuck, None)


def _possible(schedule: Schedule, n_stages: int) -> dict[Step, list[Step]]:
    """What each step waits for, in an order in which they can run; without those that wait in a circle, or for one."""
    waits_for = {}
    for steps in schedule:
        for place, step in enumerate(steps):
            waits_for[step] = needs(step, n_stages) + steps[max(place - 1, 0):place]
    sorter = TopologicalSorter(waits_for)
    with suppress(CycleError):  # all other steps still become ready
        sorter.prepare()
    order: list[Step] = []
    while sorter.is_active():
        ready = sorter.get_ready()
        order += ready
        sorter.done(*ready)
    return {step: waits_for[step] for step in order}


def sentences(faults: dict[str, Any]) -> dict[str, Any]:
    """Each fault, a tuple (rank, step, why), as its sentence; anything else as it is."""
    return {name: str(Fault(*fault)) if isinstance(fault, tuple) else fault for name, fault in faults.items()}


# ── time and memory of a schedule that can run ──


def makespan_of(schedule: Schedule, n_stages: int, durations: dict[str, float]) -> float:
    """When the last step ends, if nothing takes time on its way."""
    ends: dict[Step, float] = {}
    for step, earlier in _possible(schedule, n_stages).items():
        ends[step] = max((ends[need] for need in earlier), default=0.0) + durations[step.kind]
    return max(ends.values())


def peaks(schedule: Schedule, changes: dict[str, int] = IN_FLIGHT) -> list[int]:
    """For each rank the most micro-batches in flight, counted per stage."""
    return [max(accumulate((changes[step.kind] for step in steps), initial=0)) for steps in schedule]


def summary(returned: Any, shape: Shape, durations: dict[str, float]) -> dict[str, Any]:
    """What counts of a schedule: the sentence of its fault, its makespan without hops, and its peaks."""
    schedule = read_schedule(returned)
    if len(schedule) != shape.n_ranks:
        return {"ranks": len(schedule)}
    fault = fault_of(schedule, shape)
    if fault:
        return {"ranks": len(schedule), "fault": str(fault)}
    return {"ranks": len(schedule), "fault": "", "makespan": makespan_of(schedule, shape.n_stages, durations),
            "in flight at most": peaks(schedule)}
