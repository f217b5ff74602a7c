"""How zero_bubble_schedule is read, and what its first fault says."""

from typing import Any

from grader.exercises.technique.generators import NO_MESSAGE, can_run, fault_seen, own_fault_symptoms, plain_shape, rows_of
from grader.exercises.technique.schedules import peaks, summary
from grader.judging.exercise import Case, Look, Symptom, Technique
from utils.schedules.faults import MISSING, STUCK, TOO_EARLY
from utils.schedules.schedule import SPLIT, Shape

TIMES = {"F": 1.0, "I": 1.0, "W": 1.0}


def _shape(case: Case) -> Shape:
    return plain_shape(case)._replace(kinds=SPLIT)


def _longest(n_stages: int, n_micro: int) -> float:
    """ZB-H1 takes no longer: F and I down the line and up again, then the other micro-batches, less what W fills."""
    down_and_up, each = TIMES["F"] + TIMES["I"], sum(TIMES.values())
    return n_micro * each + (n_stages - 1) * down_and_up - min(n_stages - 1, n_micro - 1) * TIMES["W"]


def _most(case: Case) -> int:
    """What 1F1B has in flight on its first rank."""
    return min(case.inputs[0]["n_stages"], case.inputs[0]["n_micro"])


def reading(case: Case, found: Any) -> dict[str, Any]:
    """Its fault; whether it takes no longer than ZB-H1 and has no more in flight."""
    seen = summary(found, _shape(case), TIMES)
    if seen.get("fault", "no") != "":
        return seen
    allowed, most = _longest(**case.inputs[0]), _most(case)
    makespan, in_flight = seen["makespan"], max(seen["in flight at most"])
    return {**seen, "makespan": f"at most {allowed:g}" if makespan <= allowed + 1e-9 else f"{makespan:g}",
            "in flight at most": f"at most {most}" if in_flight <= most else f"{in_flight}"}


def _too_much(look: Look) -> bool:
    return can_run(_shape)(look) and max(peaks(rows_of(look))) > _most(look.case)


TECHNIQUE = Technique(
    reading=reading,
    demands=(NO_MESSAGE,),
    fallbacks=(
        fault_seen("weights never", "W steps are missing: every micro-batch needs one on every stage, the last ones after "
                                    "the last I.",
                   lambda fault: fault.why == MISSING and fault.step.kind == "W", _shape),
        fault_seen("weights before input", "A W comes before its own I.",
                   lambda fault: fault.why == TOO_EARLY and fault.step.kind == "W", _shape),
        *own_fault_symptoms(_shape),
        fault_seen("deadlock", "The schedule cannot run: F and I should come in the order that F and B have in 1F1B.",
                   lambda fault: fault.why == STUCK, _shape),
        Symptom("too much in flight", "More in flight than 1F1B has on its first rank: put W off by r micro-batches on rank "
                                      "r, no more.", _too_much),
        Symptom("bubble left", "It can run, in the memory of 1F1B, but there is more idle time than need be: put W off by r "
                               "micro-batches on rank r.", lambda look: can_run(_shape)(look) and not _too_much(look)),
    ),
)
