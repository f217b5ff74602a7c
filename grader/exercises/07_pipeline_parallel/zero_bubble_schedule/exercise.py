"""ZB-H1: the backward in two pieces, the weights' piece where the bubble was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.shared import right_orders
from grader.exercises.shared import schedule_oracle as oracle
from grader.exercises.shared.generators import (
    fault_seen,
    fault_symptoms,
    found_rows,
    size_cases,
    wrong_number_of_ranks,
)
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from utils.schedules.faults import MISSING, STUCK, TOO_EARLY, UNKNOWN_KIND
from utils.schedules.schedule import Shape

TIMES = {"F": 1.0, "I": 1.0, "W": 1.0}


def _shape(case: Case) -> Shape:
    inputs = case.inputs[0]
    return Shape(inputs["n_stages"], inputs["n_stages"], inputs["n_micro"], "FIW")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3), (2, 4), (3, 5), (4, 2), (draw.integer(4, 5), draw.integer(6, 9))]
    return size_cases(sizes + [(5, 1), (8, 16), (3, 3)] * grading, "n_stages", "n_micro")


def _makespan(n_stages: int, n_micro: int) -> float:
    """Of ZB-H1: F and I down the line and up again, then the other micro-batches, less what W fills of the waiting."""
    down_and_up, each = TIMES["F"] + TIMES["I"], sum(TIMES.values())
    return n_micro * each + (n_stages - 1) * down_and_up - min(n_stages - 1, n_micro - 1) * TIMES["W"]


def _reading(case: Case, found: Any) -> dict[str, Any]:
    """Its fault; whether it takes no longer than ZB-H1 and has no more in flight."""
    played = oracle.summary(found, _shape(case), TIMES)
    if played.get("fault", "no") != "":
        return played
    most = min(case.inputs[0]["n_stages"], case.inputs[0]["n_micro"])
    allowed = _makespan(**case.inputs[0])
    makespan, in_flight = played["makespan"], max(played["in flight at most"])
    return {**played, "makespan": f"at most {allowed:g}" if makespan <= allowed + 1e-9 else f"{makespan:g}",
            "in flight at most": f"at most {most}" if in_flight <= most else f"{in_flight}"}


def _kept_whole(look: Look) -> bool:
    """Each W follows its own I at once, on every rank."""
    return all(row[i + 1:i + 2] == [step._replace(kind="W")] for row in found_rows(look) for i, step in enumerate(row)
               if step.kind == "I") and look.case.inputs[0]["n_stages"] > 2


def _weights_last(look: Look) -> bool:
    """On every rank all weights come after the last I, though there are more micro-batches than ranks."""
    rows = ["".join(step.kind for step in row) for row in found_rows(look)]
    return look.case.inputs[0]["n_micro"] > len(rows) > 2 and all(row.rfind("I") < row.find("W") for row in rows)


def _late_on_the_wrong_ranks(look: Look) -> bool:
    """The first rank puts off more of them than the last one does."""

    def put_off(row):
        first = next((i for i, step in enumerate(row) if step.kind == "W"), 0)
        return sum(step.kind == "I" for step in row[:first])

    rows = found_rows(look)
    return len(rows) > 2 and put_off(rows[0]) > put_off(rows[-1])


EXERCISE = Exercise(
    title="Zero bubble, ZB-H1 (c)",
    parameters=("n_stages", "n_micro"),
    make_cases=_cases,
    oracle=lambda case: [_reading(case, right_orders.zero_bubble(**case.inputs[0]))],
    tolerance=1e-9,
    points={VALUES: 4},
    optional=True,
    technique=Technique(
        reading=_reading,
        demands=(only_calls(id="communicates", hint="A schedule is data: no message is needed to make one."),),
        symptoms=(
        wrong_number_of_ranks(_shape),
        fault_seen("still whole", "There is a \"B\": here the backward comes in two steps, \"I\" and \"W\".",
                   lambda fault, look: fault.why == UNKNOWN_KIND, _shape),
        fault_seen("weights never", "W steps are missing: every micro-batch needs one on every stage, the last ones after "
                                    "the last I.",
                   lambda fault, look: fault.why == MISSING and fault.step.kind == "W", _shape),
        fault_seen("weights before input", "A W comes before its own I.",
                   lambda fault, look: fault.why == TOO_EARLY and fault.step.kind == "W", _shape),
        *fault_symptoms(_shape),
        fault_seen("deadlock", "The schedule cannot run: F and I should come in the order that F and B have in 1F1B.",
                   lambda fault, look: fault.why == STUCK, _shape),
        Symptom("nothing put off", "Every W follows its own I at once: that is 1F1B again, only in smaller pieces. Put W "
                                   "off, by r micro-batches on rank r.",
                lambda look: look.evidence.ending == RETURNED and _kept_whole(look)),
        Symptom("weights all at the end", "All W at the end: activations stay in flight until then, as many as GPipe has. "
                                          "Rank r puts W off by r micro-batches only.", _weights_last),
        Symptom("put off on the wrong ranks", "The first rank puts off more than the last: but rank r has p − r "
                                              "micro-batches in flight already, and so room for r "
                                              "more.", _late_on_the_wrong_ranks),
        Symptom("too much in flight", "More in flight than 1F1B has on its first rank: put W off by r micro-batches on rank "
                                      "r, no more.", lambda look: max(oracle.peaks(found_rows(look))) > min(
                                          look.case.inputs[0]["n_stages"], look.case.inputs[0]["n_micro"])),
        Symptom("bubble left", "It can run, in the memory of 1F1B, but there is more idle time than need be: put W off by r "
                               "micro-batches on rank r.", lambda look: bool(found_rows(look))),
    ),
    ),
)
