"""Simulate a schedule: when each step starts and ends, how long it takes, how much is idle, how much is in flight."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared import right_orders
from grader.exercises.shared.right_faults import needs
from grader.exercises.technique.schedules import peaks
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.schedules.schedule import Schedule, Times, parse_schedule

WHOLE, SPLIT = {"F": 1.0, "B": 2.0}, {"F": 1.0, "I": 1.25, "W": 0.75}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    p, m, hop = draw.integer(3, 4), draw.integer(4, 7), draw.integer(1, 4) / 8
    uneven = {"F": draw.integer(5, 9) / 4, "B": draw.integer(10, 15) / 4}
    schedules = {
        "1 rank": (right_orders.one_f_one_b(1, 3), WHOLE, hop),
        "GPipe": (right_orders.gpipe(p, m), WHOLE, 0.0),
        "1F1B, with hops": (right_orders.one_f_one_b(p, m), uneven, hop),
        "interleaved, with hops": (right_orders.interleaved(2, 2, 4), WHOLE, hop),
        "zero bubble, with hops": (right_orders.zero_bubble(p, m), SPLIT, hop),
        "2 ranks, weights of the last one last": (
            parse_schedule("F0 F1 F2 I0 W0 I1 W1 I2 W2", "F0 I0 F1 I1 F2 I2 W0 W1 W2"), {"F": 1.0, "I": 1.0, "W": 3.0}, 0.0),
        "1 rank, most in flight after a backward": (parse_schedule("F0 B0 F1 F2 F3 B1 B2 B3"), WHOLE, hop),
        "2 ranks, layer by layer": (  # a rank's stages follow one another, as no rule would have them
            parse_schedule("F0.0 F0.1 F1.0 F1.1 B0.1 B0.0 B1.1 B1.0", "F0.2 F0.3 B0.3 B0.2 F1.2 F1.3 B1.3 B1.2"),
            WHOLE, 0.0),
        "2 ranks, forwards that take no time": (right_orders.one_f_one_b(2, 3), {"F": 0.0, "B": 2.0}, 0.0),
        "1 rank, 3 stages, with hops": (
            parse_schedule("F0.0 F0.1 F0.2 B0.2 B0.1 B0.0 F1.0 F1.1 F1.2 B1.2 B1.1 B1.0"), WHOLE, hop),
    }
    if grading:
        schedules["1F1B of 8"] = (right_orders.one_f_one_b(8, 11), uneven, 0.3)
        schedules["by hand"] = (parse_schedule("F0 F1 F2 B2 B1 B0", "F0 F1 F2 B2 B0 B1"), uneven, hop)
    return [Case(name, ({"schedule": schedule, "durations": durations, "hop_time": hop},))
            for name, (schedule, durations, hop) in schedules.items()]


# ── one process plays them ──


def _times(schedule: Schedule, durations: dict[str, float], hop_time: float) -> Times:
    """When each step starts and ends."""
    n_ranks, n_stages = len(schedule), 1 + max(step.stage for row in schedule for step in row)
    waiting, free, times = [list(steps) for steps in schedule], [0.0] * n_ranks, {}
    while any(waiting):
        for rank, steps in enumerate(waiting):
            while steps and all(need in times for need in needs(steps[0], n_stages)):
                step = steps.pop(0)
                arrivals = [times[need][1] + (hop_time if need.stage % n_ranks != rank else 0.0)
                            for need in needs(step, n_stages)]
                begin = max([free[rank], *arrivals])
                free[rank] = begin + durations[step.kind]
                times[step] = begin, free[rank]
    return times


def _simulated(case: Case) -> dict[str, Any]:
    schedule, durations, _ = case.inputs[0].values()
    times = _times(*case.inputs[0].values())
    makespan = max(end for _, end in times.values())
    busy = sum(durations[step.kind] for row in schedule for step in row)
    return {"times": {tuple(step): both for step, both in times.items()}, "makespan": makespan,
            "bubble rate": 1 - busy / (len(schedule) * makespan), "peaks": peaks(schedule)}


EXERCISE = Exercise(
    title="Play a schedule",
    parameters=("schedule", "durations", "hop_time"),
    make_cases=_cases,
    oracle=lambda case: [_simulated(case)],
    tolerance=1e-9,
    points={VALUES: 4},
)
