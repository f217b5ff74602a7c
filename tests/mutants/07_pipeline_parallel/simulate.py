"""Wrong simulators."""

import itertools

from tests.mutants import mutant
from utils.schedules.schedule import Played

from .right import needed


def _played(schedule, durations, hop_time, start_of=max, travels=lambda a, b, n: a % n != b % n, after=lambda step, n: 0.0,
            changes=None, rate=lambda busy, n, makespan: 1 - busy / (n * makespan)):
    n, n_stages = len(schedule), 1 + max(step.stage for row in schedule for step in row)
    rows, times, free = [list(row) for row in schedule], {}, [0.0] * n
    while any(rows):
        for rank, row in enumerate(rows):
            while row and all(need in times for need in needed(row[0], n_stages)):
                step = row.pop(0)
                ready = [times[need][1] + hop_time * travels(need.stage, step.stage, n) for need in needed(step, n_stages)]
                start = start_of([free[rank], *ready]) if start_of is max else start_of(free, rank, ready)
                times[step] = start, start + durations[step.kind]
                free[rank] = times[step][1] + after(step, n_stages)
    makespan = max(end for _, end in times.values())
    busy = sum(durations[step.kind] for step in times)
    changes = changes or {"F": 1, "B": -1, "I": 0, "W": -1}
    peaks = [max(itertools.accumulate(changes[step.kind] for step in row)) for row in schedule]
    return Played(times, makespan, rate(busy, n, makespan), peaks)


@mutant("hops forgotten")
def without_hops(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, 0.0)


@mutant("hops keep the sender busy")
def sender_waits(schedule, durations, hop_time=0.0):
    def after(step, n_stages):
        sends = (step.kind == "F" and step.stage < n_stages - 1) or (step.kind in "BI" and step.stage > 0)
        return hop_time * sends

    return _played(schedule, durations, hop_time, after=after)


@mutant("hops within a rank")
def hops_between_stages(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, hop_time, travels=lambda a, b, n: a != b)


@mutant("several at once")
def a_rank_is_always_free(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, hop_time, start_of=lambda free, rank, ready: max([0.0, *ready]))


@mutant("everybody waits")
def after_all(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, hop_time, start_of=lambda free, rank, ready: max([*free, *ready]))


@mutant("relative to ideal")
def idle_over_busy(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, hop_time, rate=lambda busy, n, makespan: n * makespan / busy - 1)


@mutant("time of one rank")
def all_work_in_one_makespan(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, hop_time, rate=lambda busy, n, makespan: 1 - busy / makespan)


@mutant("gone at I")
def input_frees(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, hop_time, changes={"F": 1, "B": -1, "I": -1, "W": 0})


@mutant("all forwards counted")
def nothing_goes(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, hop_time, changes={"F": 1, "B": 0, "I": 0, "W": 0})


@mutant("one peak for all")
def the_most(schedule, durations, hop_time=0.0):
    played = _played(schedule, durations, hop_time)
    return played._replace(peaks=[max(played.peaks)])


@mutant("makespan")
def last_forward(schedule, durations, hop_time=0.0):
    played = _played(schedule, durations, hop_time)
    return played._replace(makespan=max(end for step, (_, end) in played.times.items() if step.kind == "F"))


@mutant("starts early")
def waits_for_one_of_its_needs(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, hop_time, start_of=lambda free, rank, ready: max([free[rank], *ready[:1]]))


@mutant("starts late")
def hops_before_every_step(schedule, durations, hop_time=0.0):
    return _played(schedule, durations, hop_time, start_of=lambda free, rank, ready: max([free[rank] + hop_time, *ready]))
