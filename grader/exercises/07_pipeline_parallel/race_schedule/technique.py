"""How race_schedule is read, which bars it must reach, and what its first fault says."""

from collections.abc import Callable
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.generators import NO_MESSAGE, PLAIN, Generator
from grader.exercises.technique.schedules import makespan_of, peaks, read_schedule
from grader.judging.exercise import Case, Demand, Look, Symptom, Technique
from utils.schedules.faults import STUCK, UNKNOWN_KIND
from utils.schedules.schedule import SPLIT, Schedule

RACE = Generator(lambda case: PLAIN.shape(case)._replace(kinds=SPLIT), dict.fromkeys(SPLIT, 1.0))
FASTER, ROUNDING = "less than 1F1B", 1e-9


def makespan_in(case: Case, schedule: Schedule) -> float:
    """How long the case's times make it."""
    inputs = case.inputs[0]
    return makespan_of(schedule, inputs["n_stages"], inputs["durations"], inputs["hop_time"])


def idle(case: Case, makespan: float) -> str:
    """The idle part of all ranks' time, as simulate's bubble_rate."""
    inputs = case.inputs[0]
    return f"{1 - inputs['n_micro'] * sum(inputs['durations'].values()) / makespan:.1%}"


def reading(case: Case, found: Any) -> dict[str, Any]:
    """Its fault; whether it keeps to the memory; whether less is idle than in 1F1B."""
    seen, rows, inputs = RACE.reading(case, found), read_schedule(found), case.inputs[0]
    if seen.get("fault", "no") != "":
        return seen
    makespan, most = makespan_in(case, rows), max(peaks(rows))
    return {"ranks": seen["ranks"], "fault": "",
            "in flight": f"at most {inputs['most']}" if most <= inputs["most"] else f"{most}",
            "idle": FASTER if makespan < inputs["1F1B"] - ROUNDING else idle(case, makespan)}


def _read(look: Look) -> dict[str, Any]:
    """Nothing for what is no schedule."""
    try:
        return reading(look.case, look.outputs[0]) if look.evidence.ending == RETURNED else {}
    except (TypeError, ValueError, LookupError, AttributeError):
        return {}


def _bar(id: str, label: str, asked: Callable[[dict[str, Any]], bool]) -> Demand:
    """In the cases that are asked for, it takes no longer than the bar."""

    def judge(look: Look) -> tuple[bool, str]:
        inputs = look.case.inputs[0]
        if not asked(inputs):
            return True, ""
        if _read(look) != look.right[0]:
            return False, "no schedule that can run in this memory, with less idle than 1F1B"
        makespan = makespan_in(look.case, read_schedule(look.outputs[0]))
        return makespan <= inputs["bar"] + ROUNDING, (
            f"{idle(look.case, makespan)} of the time is idle, the bar is {idle(look.case, inputs['bar'])}")

    return Demand(id, label, judge)


def _over(look: Look) -> bool:
    return RACE.can_run(look) and max(peaks(read_schedule(look.outputs[0]))) > look.case.inputs[0]["most"]


TECHNIQUE = Technique(
    reading=reading,
    demands=(
        NO_MESSAGE,
        _bar("bar of ZB-H1", "no more idle than ZB-H1 in its memory", lambda inputs: inputs["most"] == inputs["n_stages"]),
        _bar("bar with more memory", "no more idle than ZB-H2, or a line between it and ZB-H1, with more memory",
             lambda inputs: inputs["most"] > inputs["n_stages"]),
    ),
    fallbacks=(
        RACE.fault_seen("still whole", UNKNOWN_KIND),
        *RACE.own_fault_symptoms(),
        RACE.fault_seen("deadlock", STUCK),
        Symptom("too much in flight", _over),
        Symptom("bubble left", lambda look: RACE.can_run(look) and not _over(look)),
    ),
)
