"""Simulate a schedule: when each step starts and ends, how long it takes, how much is idle, how much is in flight."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared import right_orders
from grader.exercises.shared.right_faults import needs
from grader.exercises.technique.schedules import IN_FLIGHT, peaks
from grader.judging.compare import ANYTHING
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.schedules.schedule import Step, Times, parse_schedule

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


def _other_rank(need: Step, step: Step, n_ranks: int) -> bool:
    return need.stage % n_ranks != step.stage % n_ranks


def _as_early_as_possible(free: list[float], rank: int, arrivals: list[float]) -> float:
    return max([free[rank], *arrivals])


def _times(case: Case, travels: Callable[[Step, Step, int], bool] = _other_rank,
           start: Callable[[list[float], int, list[float]], float] = _as_early_as_possible,
           held: Callable[[Step, int, int], bool] = lambda step, n_ranks, n_stages: False) -> Times:
    """When each step starts and ends.

    travels(need, step, n_ranks): whether a hop lies between two steps. start(free, rank, arrivals): when a step of `rank`
    starts, if each rank is free at free[rank]. held(step, n_ranks, n_stages): whether its rank waits for a hop afterwards.
    """
    schedule, durations, hop = case.inputs[0].values()
    n_ranks, n_stages = len(schedule), 1 + max(step.stage for row in schedule for step in row)
    waiting, free, times = [list(steps) for steps in schedule], [0.0] * n_ranks, {}
    while any(waiting):
        for rank, steps in enumerate(waiting):
            while steps and all(need in times for need in needs(steps[0], n_stages)):
                step = steps.pop(0)
                arrivals = [times[need][1] + (hop if travels(need, step, n_ranks) else 0.0)
                            for need in needs(step, n_stages)]
                begin = start(free, rank, arrivals)
                end = begin + durations[step.kind]
                times[step] = begin, end
                free[rank] = end + (hop if held(step, n_ranks, n_stages) else 0.0)
    return times


def _busy(case: Case) -> float:
    return sum(case.inputs[0]["durations"][step.kind] for row in case.inputs[0]["schedule"] for step in row)


def _simulated(case: Case) -> dict[str, Any]:
    times, schedule = _times(case), case.inputs[0]["schedule"]
    makespan = max(end for _, end in times.values())
    return {"times": _plain(times), "makespan": makespan, "bubble rate": 1 - _busy(case) / (len(schedule) * makespan),
            "peaks": peaks(schedule)}


def _plain(times: Times) -> dict[tuple, tuple[float, float]]:
    return {tuple(step): both for step, both in times.items()}


def _timed(id: str, hint: str, **ways: Callable) -> Slip:
    """The timetable made in other ways, see _times; whatever else is then computed from it is left open."""
    return Slip(id, hint, lambda case, rank, right: dict.fromkeys(right[rank], ANYTHING) | {
        "times": _plain(_times(case, **ways))})


def _number(id: str, hint: str, name: str, wrong: Callable[[Case, dict[str, Any]], Any]) -> Slip:
    """The right timetable, and one number that is not: wrong(case, right)."""
    return Slip(id, hint, lambda case, rank, right: right[rank] | {name: wrong(case, right[rank])})


def _peaks(id: str, hint: str, **changes: int) -> Slip:
    """With other changes of what is in flight."""
    return _number(id, hint, "peaks", lambda case, right: peaks(case.inputs[0]["schedule"], IN_FLIGHT | changes))


def _sends(step: Step, n_ranks: int, n_stages: int) -> bool:
    receiver = step.stage + (1 if step.kind == "F" else -1)
    return n_ranks > 1 and step.kind != "W" and 0 <= receiver < n_stages


EXERCISE = Exercise(
    title="Play a schedule",
    parameters=("schedule", "durations", "hop_time"),
    make_cases=_cases,
    oracle=lambda case: [_simulated(case)],
    tolerance=1e-9,
    points={VALUES: 4},
    slips=(
        _timed("hops forgotten", "The timetable is right for a hop of 0: what comes from another rank arrives hop_time "
                                 "after it was done.", travels=lambda need, step, n_ranks: False),
        _timed("hops keep the sender busy", "A message travels while its sender goes on: the hop delays the step that "
                                            "needs it, not the rank that sent it.", held=_sends),
        _timed("hops within a rank", "Between two steps of one rank nothing travels, even where their stages differ: no "
                                     "hop there.", travels=lambda need, step, n_ranks: need.stage != step.stage),
        _timed("several at once", "A rank does one step at a time: a step starts no earlier than the one before it in the "
                                  "rank's list ends.", start=lambda free, rank, arrivals: max([0.0, *arrivals])),
        _timed("everybody waits", "A step waits for its own rank and for what it needs, not for all other ranks.",
               start=lambda free, rank, arrivals: max([*free, *arrivals])),
        _number("relative to ideal", "Your bubble rate is idle over busy time. Here it is the idle share of all ranks' "
                                     "time: 1 − busy / (n_ranks · makespan).", "bubble rate",
                lambda case, right: right["bubble rate"] / (1 - right["bubble rate"])),
        _number("time of one rank", "Busy time is summed over all ranks: so divide by n_ranks · makespan.", "bubble rate",
                lambda case, right: 1 - _busy(case) / right["makespan"]),
        Slip("makespan of rank 0", "The makespan is the last end on any rank, not rank 0's.",
             lambda case, rank, right: right[rank] | {"bubble rate": ANYTHING, "makespan": max(
                 end for (_, _, stage), (_, end) in right[rank]["times"].items()
                 if stage % len(case.inputs[0]["schedule"]) == 0)}),
        _peaks("gone at I", "In flight until W, not I: the weights' gradients need the activations too.", I=-1, W=0),
        _peaks("all forwards counted", "After its backward a micro-batch is no longer in flight: the peak is the most "
                                       "at one time, not the number of forwards.", B=0, W=0),
    ),
)
