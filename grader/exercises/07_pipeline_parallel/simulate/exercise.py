"""Play a schedule: when each step starts and ends, how long it takes, how much is idle, how much is in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.shared import right_orders
from grader.exercises.shared import schedule_oracle as oracle
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from utils.schedules.schedule import written

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
        "1 rank, 3 stages, with hops": (written("F0.0 F0.1 F0.2 B0.2 B0.1 B0.0 F1.0 F1.1 F1.2 B1.2 B1.1 B1.0"), WHOLE, hop),
    }
    if grading:
        schedules["1F1B of 8"] = (right_orders.one_f_one_b(8, 11), uneven, 0.3)
        schedules["by hand"] = (written("F0 F1 F2 B2 B1 B0", "F0 F1 F2 B2 B0 B1"), uneven, hop)
    return [Case(name, ({"schedule": [[tuple(step) for step in row] for row in rows], "durations": durations,
                         "hop_time": hop},)) for name, (rows, durations, hop) in schedules.items()]


def _played(case: Case, **way: Any) -> dict[str, Any]:
    inputs = case.inputs[0]
    return oracle.play(oracle.as_rows(inputs["schedule"]), inputs["durations"], inputs["hop_time"], **way)


def _times_as(way: Callable[[Case], dict[str, Any]]) -> Callable[[Look], bool]:
    """The timetable is the one of a wrong way."""

    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED or same(look.outputs[0]["times"], look.right[0]["times"]):
            return False
        return same(look.outputs[0]["times"], way(look.case)["times"])

    return matches


def _starts(early: bool) -> Callable[[Look], bool]:
    """Some step starts too early; or none does, and some too late."""

    def matches(look: Look) -> bool:
        found, expected = look.outputs[0]["times"], look.right[0]["times"]
        beside = [found[step][0] - start for step, (start, _) in expected.items()]
        return min(beside) < -1e-6 if early else min(beside) >= -1e-6 and max(beside) > 1e-6

    return matches


def _number(name: str, way: Callable[[Look, oracle.Rows], Any]) -> Callable[[Look], bool]:
    """The times are right, and this number is that of a wrong way."""

    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED:
            return False
        found, rows = look.outputs[0], oracle.as_rows(look.case.inputs[0]["schedule"])
        return same(found["times"], look.right[0]["times"]) and same(found[name], way(look, rows)) and not same(
            found[name], look.right[0][name])

    return matches


def _without_hops(case: Case) -> dict[str, Any]:
    inputs = case.inputs[0]
    return oracle.play(oracle.as_rows(inputs["schedule"]), inputs["durations"], 0.0)


def _to_ideal(look: Look, rows: oracle.Rows) -> float:
    idle = look.right[0]["bubble rate"]
    return idle / (1 - idle)


def _of_one_rank(look: Look, rows: oracle.Rows) -> float:
    busy = sum(look.case.inputs[0]["durations"][step.kind] for row in rows for step in row)
    return 1 - busy / look.right[0]["makespan"]


def _peaks(**changes: int) -> Callable[[Look, oracle.Rows], list[int]]:
    return lambda look, rows: oracle.peaks(rows, oracle.CHANGES | changes)


EXERCISE = Exercise(
    title="Play a schedule",
    parameters=("schedule", "durations", "hop_time"),
    make_cases=_cases,
    oracle=lambda case: [_played(case)],
    tolerance=1e-9,
    points={VALUES: 4},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("hops forgotten", "The timetable is right for a hop of 0: what comes from another rank arrives hop_time "
                                  "after it was done.", _times_as(_without_hops)),
        Symptom("hops keep the sender busy", "A message travels while its sender goes on: the hop delays the step that "
                                             "needs it, not the rank that sent it.",
                _times_as(lambda case: _played(case, blocks=True))),
        Symptom("hops within a rank", "Between two steps of one rank nothing travels, even where their stages differ: no "
                                      "hop there.", _times_as(lambda case: _played(case, everywhere=True))),
        Symptom("several at once", "A rank does one step at a time: a step starts no earlier than the one before it in the "
                                   "rank's list ends.", _times_as(lambda case: _played(case, own_rank_free=True))),
        Symptom("everybody waits", "A step waits for its own rank and for what it needs, not for all other ranks.",
                _times_as(lambda case: _played(case, lockstep=True))),
        Symptom("relative to ideal", "Your bubble rate is idle over busy time. Here it is the idle part of all time: "
                                     "1 − busy / (n_ranks · makespan).", _number("bubble rate", _to_ideal)),
        Symptom("time of one rank", "Busy time is summed over all ranks: so divide by n_ranks · makespan.",
                _number("bubble rate", _of_one_rank)),
        Symptom("gone at I", "In flight until W, not I: the weights' gradients need the activations too.",
                _number("peaks", _peaks(I=-1, W=0))),
        Symptom("all forwards counted", "A backward takes its micro-batch out of flight: the peak is the most at one time, "
                                        "not the number of forwards.", _number("peaks", _peaks(B=0, I=0, W=0))),
        Symptom("one peak for all", "peaks is a list, one number for each rank.",
                lambda look: look.evidence.ending == RETURNED and len(look.outputs[0]["peaks"]) != len(
                    look.case.inputs[0]["schedule"])),
        Symptom("makespan", "The makespan is the last end on any rank.",
                _number("makespan", lambda look, rows: look.outputs[0]["makespan"])),
        Symptom("starts early", "A step starts before its rank is free, or before all that it needs has arrived: its start "
                                "is the latest of these.", _starts(early=True)),
        Symptom("starts late", "A step starts later than it must: as soon as its rank is free and all that it needs has "
                               "arrived. A hop delays what is needed from another rank, and nothing else.",
                _starts(early=False)),
    ),
    ),
)
