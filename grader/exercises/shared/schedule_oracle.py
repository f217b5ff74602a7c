"""Schedules by the judge's own means: how they are made, explained and played; and by which slip they come out wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, STUCK, TOO_EARLY, TOO_MANY, UNKNOWN_KIND
from utils.schedules.schedule import Fault, Shape, Step

Rows = list[list[Step]]
CHANGES = {"F": 1, "B": -1, "I": 0, "W": -1}  # of the micro-batches in flight


def as_rows(found: Any) -> Rows:
    """A schedule that a student's function returned.  Raises: ValueError, TypeError if it is none."""
    rows = [[Step(*step) for step in row] for row in found]
    for step in (step for row in rows for step in row):
        if not isinstance(step.kind, str) or type(step.micro) is not int or type(step.stage) is not int:
            raise TypeError(f"{step} is no step")
    return rows


def needs(step: Step, n_stages: int, own: bool = True) -> list[Step]:
    """own=False: a backward's own forward is forgotten."""
    kind, micro, stage = step
    if kind == "F":
        return [Step("F", micro, stage - 1)] * (stage > 0)
    if kind == "W":
        return [Step("I", micro, stage)]
    return [Step("F", micro, stage)] * own + [Step(kind, micro, stage + 1)] * (stage < n_stages - 1)


def rank_fault(steps: Sequence[Step], rank: int, shape: Shape, without: Sequence[str] = ()) -> Fault | None:
    """without: faults that are not looked for."""
    found = every_fault(steps, rank, shape)
    return next((fault for fault in found if fault.why not in without), None)


def every_fault(steps: Sequence[Step], rank: int, shape: Shape):
    """All faults of one rank, in the order in which they are looked for."""
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


def fault_of(rows: Rows, shape: Shape, limits: Sequence[int] | None = None, without: Sequence[str] = (),
             weight_frees: bool = True) -> Fault | None:
    """The first thing that is wrong with a schedule.

    without: faults that are not looked for; weight_frees=False: activations are thought to go at I.
    """
    rows = [*rows, *[[] for _ in range(shape.n_ranks - len(rows))]]
    for rank, steps in enumerate(rows):
        fault = rank_fault(steps, rank, shape, without)
        if fault:
            return fault
    stuck = standing(rows, shape.n_stages)
    if stuck and STUCK not in without:
        return Fault(*min(stuck), STUCK)
    for rank, steps in enumerate(rows if limits and TOO_MANY not in without else ()):
        count, changes = 0, CHANGES if weight_frees else CHANGES | {"I": -1, "W": 0}
        for step in steps:
            count += changes[step.kind]
            if count > limits[rank]:
                return Fault(rank, step, TOO_MANY)
    return None


def standing(rows: Rows, n_stages: int) -> list[tuple[int, Step]]:
    """(rank, step) of each rank that cannot finish, when all have gone as far as they can."""
    done, place, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, steps in enumerate(rows):
            while place[rank] < len(steps) and done.issuperset(needs(steps[place[rank]], n_stages)):
                done.add(steps[place[rank]])
                place[rank] += 1
                moved = True
    return [(rank, steps[place[rank]]) for rank, steps in enumerate(rows) if place[rank] < len(steps)]


def play(rows: Rows, durations: dict[str, float], hop: float, blocks: bool = False, everywhere: bool = False,
         own_rank_free: bool = False, lockstep: bool = False) -> dict[str, Any]:
    """times, makespan, bubble rate and peaks of a schedule that can run.

    Wrong ways: blocks, a hop keeps the sender busy; everywhere, a hop even within a rank; own_rank_free, a rank does several
    steps at once; lockstep, a step starts only when every earlier one of all ranks has ended.
    """
    n_ranks, n_stages = len(rows), 1 + max(step.stage for row in rows for step in row)
    place, free, times = [0] * n_ranks, [0.0] * n_ranks, {}
    while any(place[rank] < len(rows[rank]) for rank in range(n_ranks)):
        for rank, steps in enumerate(rows):
            while place[rank] < len(steps) and all(n in times for n in needs(steps[place[rank]], n_stages)):
                step = steps[place[rank]]
                away = {n: n.stage % n_ranks != rank or (everywhere and n.stage != step.stage)
                        for n in needs(step, n_stages)}
                ready = [times[n][1] + hop * far for n, far in away.items()]
                start = max([0.0 if own_rank_free else max(free) if lockstep else free[rank], *ready])
                end = start + durations[step.kind]
                sends = n_ranks > 1 and step.kind != "W" and 0 <= step.stage + (1 if step.kind == "F" else -1) < n_stages
                free[rank] = end + hop * (blocks and sends)
                times[step] = start, end
                place[rank] += 1
    makespan = max(end for _, end in times.values())
    busy = sum(durations[step.kind] for step in times)
    return {"times": {tuple(step): both for step, both in times.items()}, "makespan": makespan,
            "bubble rate": 1 - busy / (n_ranks * makespan), "peaks": peaks(rows)}


def peaks(rows: Rows, changes: dict[str, int] | None = None) -> list[int]:
    """For each rank the most micro-batches in flight, counted per stage."""
    found = []
    for steps in rows:
        count = most = 0
        for step in steps:
            count += (changes or CHANGES)[step.kind]
            most = max(most, count)
        found.append(most)
    return found


def summary(found: Any, shape: Shape, durations: dict[str, float], hop: float = 0.0) -> dict[str, Any]:
    """What counts of a schedule: the sentence of its fault, its makespan and its peaks."""
    rows = as_rows(found)
    if len(rows) != shape.n_ranks:
        return {"ranks": len(rows)}
    fault = fault_of(rows, shape)
    if fault:
        return {"ranks": len(rows), "fault": str(fault)}
    played = play(rows, durations, hop)
    return {"ranks": len(rows), "fault": "", "makespan": played["makespan"], "in flight at most": played["peaks"]}
