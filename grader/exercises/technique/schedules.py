"""The judge's own look at a schedule: whether it can run, how long it then takes, how much is in flight."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, STUCK, TOO_EARLY, TOO_MANY, UNKNOWN_KIND
from utils.schedules.schedule import Fault, Shape, Step, Times

Rows = list[list[Step]]
IN_FLIGHT = {"F": 1, "B": -1, "I": 0, "W": -1}  # how each kind changes the number of micro-batches in flight


def as_rows(returned: Any) -> Rows:
    """A schedule that a student's function returned.  Raises: ValueError, TypeError if it is none."""
    rows = [[Step(*step) for step in row] for row in returned]
    for step in (step for row in rows for step in row):
        if not isinstance(step.kind, str) or type(step.micro) is not int or type(step.stage) is not int:
            raise TypeError(f"{step} is no step")
    return rows


def needs(step: Step, n_stages: int) -> list[Step]:
    kind, micro, stage = step
    if kind == "F":
        return [Step("F", micro, stage - 1)] if stage > 0 else []
    if kind == "W":
        return [Step("I", micro, stage)]
    after = [Step(kind, micro, stage + 1)] if stage < n_stages - 1 else []
    return [Step("F", micro, stage), *after]


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


def own_fault(rows: Rows, shape: Shape) -> Fault | None:
    """The first fault within one rank's list; a rank without a list does nothing."""
    lists = [*rows, *([] for _ in range(shape.n_ranks - len(rows)))]
    return next((fault for rank, steps in enumerate(lists) for fault in rank_faults(steps, rank, shape)), None)


def stuck_faults(rows: Rows, shape: Shape) -> list[Fault]:
    """One for each rank that cannot finish, at the step where it stands when all have gone as far as they can."""
    done, waiting, moved = set(), [list(steps) for steps in rows], True
    while moved:
        moved = False
        for steps in waiting:
            while steps and done.issuperset(needs(steps[0], shape.n_stages)):
                done.add(steps.pop(0))
                moved = True
    return [Fault(rank, steps[0], STUCK) for rank, steps in enumerate(waiting) if steps]


def memory_fault(rows: Rows, limits: Sequence[int] | None, changes: dict[str, int] = IN_FLIGHT) -> Fault | None:
    """The first step that puts more in flight than its rank may have; None without limits."""
    for rank, steps in enumerate(rows if limits else ()):
        for step, count in zip(steps, accumulate(changes[step.kind] for step in steps), strict=True):
            if count > limits[rank]:
                return Fault(rank, step, TOO_MANY)
    return None


def fault_of(rows: Rows, shape: Shape, limits: Sequence[int] | None = None) -> Fault | None:
    """The first thing that is wrong with a schedule: within a rank, between ranks, in memory."""
    return own_fault(rows, shape) or next(iter(stuck_faults(rows, shape)), None) or memory_fault(rows, limits)


def sentences(faults: dict[str, Any]) -> dict[str, Any]:
    """Each fault, a tuple (rank, step, why), as its sentence; anything else as it is."""
    return {name: str(Fault(*fault)) if isinstance(fault, tuple) else fault for name, fault in faults.items()}


# ── time and memory of a schedule that can run ──


def as_early_as_possible(free: list[float], rank: int, arrivals: list[float]) -> float:
    return max([free[rank], *arrivals])


def timetable(rows: Rows, durations: dict[str, float], hop: Callable[[Step, Step], float],
              start: Callable[[list[float], int, list[float]], float] = as_early_as_possible,
              held: Callable[[Step], float] = lambda step: 0.0) -> Times:
    """When each step starts and ends.

    hop(need, step): how long a result travels. start(free, rank, arrivals): when a step of `rank` starts, if each rank is
    free at free[rank]. held(step): how long its rank is still not free after a step.
    """
    n_stages = 1 + max(step.stage for row in rows for step in row)
    waiting, free, times = [list(steps) for steps in rows], [0.0] * len(rows), {}
    while any(waiting):
        for rank, steps in enumerate(waiting):
            while steps and all(need in times for need in needs(steps[0], n_stages)):
                step = steps.pop(0)
                arrivals = [times[need][1] + hop(need, step) for need in needs(step, n_stages)]
                begin = start(free, rank, arrivals)
                times[step] = begin, begin + durations[step.kind]
                free[rank] = times[step][1] + held(step)
    return times


def makespan_of(times: Times) -> float:
    return max(end for _, end in times.values())


def peaks(rows: Rows, changes: dict[str, int] = IN_FLIGHT) -> list[int]:
    """For each rank the most micro-batches in flight, counted per stage."""
    return [max(accumulate((changes[step.kind] for step in steps), initial=0)) for steps in rows]


def summary(returned: Any, shape: Shape, durations: dict[str, float]) -> dict[str, Any]:
    """What counts of a schedule: the sentence of its fault, its makespan without hops, and its peaks."""
    rows = as_rows(returned)
    if len(rows) != shape.n_ranks:
        return {"ranks": len(rows)}
    fault = fault_of(rows, shape)
    if fault:
        return {"ranks": len(rows), "fault": str(fault)}
    makespan = makespan_of(timetable(rows, durations, lambda need, step: 0.0))
    return {"ranks": len(rows), "fault": "", "makespan": makespan, "in flight at most": peaks(rows)}
