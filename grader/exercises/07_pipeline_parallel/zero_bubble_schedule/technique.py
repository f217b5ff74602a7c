"""How zero_bubble_schedule is read, and what its first fault says."""

from typing import Any

from grader.exercises.technique.generators import NO_MESSAGE, PLAIN, Generator, rows_of
from grader.exercises.technique.schedules import peaks
from grader.judging.exercise import Case, Look, Symptom, Technique
from utils.schedules.faults import STUCK
from utils.schedules.schedule import SPLIT

TIMES = {"F": 1.0, "I": 1.0, "W": 1.0}
ZERO_BUBBLE = Generator(lambda case: PLAIN.shape(case)._replace(kinds=SPLIT), TIMES)


def _longest(n_stages: int, n_micro: int) -> float:
    """ZB-H1 takes no longer: F and I down the line and up again, then the other micro-batches, less what W fills."""
    down_and_up, each = TIMES["F"] + TIMES["I"], sum(TIMES.values())
    return n_micro * each + (n_stages - 1) * down_and_up - min(n_stages - 1, n_micro - 1) * TIMES["W"]


def _most(case: Case) -> int:
    """What 1F1B has in flight on its first rank."""
    return min(case.inputs[0]["n_stages"], case.inputs[0]["n_micro"])


def reading(case: Case, found: Any) -> dict[str, Any]:
    """Its fault; whether it takes no longer than ZB-H1 and has no more in flight."""
    seen = ZERO_BUBBLE.reading(case, found)
    if seen.get("fault", "no") != "":
        return seen
    allowed, most = _longest(**case.inputs[0]), _most(case)
    makespan, in_flight = seen["makespan"], max(seen["in flight at most"])
    return {**seen, "makespan": f"at most {allowed:g}" if makespan <= allowed + 1e-9 else f"{makespan:g}",
            "in flight at most": f"at most {most}" if in_flight <= most else f"{in_flight}"}


def _too_much(look: Look) -> bool:
    return ZERO_BUBBLE.can_run(look) and max(peaks(rows_of(look))) > _most(look.case)


TECHNIQUE = Technique(
    call="schedules_run:call_generator",
    reading=reading,
    demands=(NO_MESSAGE,),
    fallbacks=(
        *ZERO_BUBBLE.own_fault_symptoms(),
        ZERO_BUBBLE.fault_seen("deadlock", STUCK),
        Symptom("too much in flight", _too_much),
        Symptom("bubble left", lambda look: ZERO_BUBBLE.can_run(look) and not _too_much(look)),
    ),
)
