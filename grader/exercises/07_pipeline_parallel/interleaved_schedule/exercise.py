"""Interleaved 1F1B: several stages on each rank, and so a smaller bubble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.shared import right_orders
from grader.exercises.shared import schedule_oracle as oracle
from grader.exercises.shared.generators import (
    WHOLE_TIMES,
    fault_seen,
    fault_symptoms,
    found_rows,
    peaks_differ,
    size_cases,
    wrong_number_of_ranks,
)
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from utils.schedules.faults import STUCK
from utils.schedules.schedule import Shape


def _shape(case: Case) -> Shape:
    inputs = case.inputs[0]
    return Shape(inputs["n_ranks"], inputs["n_ranks"] * inputs["n_chunks"], inputs["n_micro"])


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2, 3), (2, 2, 4), (3, 2, 6), (2, 3, 2), (4, draw.integer(2, 3), 8), (4, 2, 6)]
    return size_cases(sizes + [(3, 1, 6), (5, 2, 10), (3, 2, 7)] * grading, "n_ranks", "n_chunks", "n_micro")


def _refusal(case: Case) -> dict[str, str]:
    return {"ValueError": f"names {case.inputs[0]['n_micro']} and {case.inputs[0]['n_ranks']}"}


def _oracle(case: Case) -> list[Any]:
    inputs = case.inputs[0]
    if inputs["n_micro"] % inputs["n_ranks"]:
        return [_refusal(case)]
    return [_reading(case, right_orders.interleaved(**inputs))]


def _reading(case: Case, found: Any) -> Any:
    if isinstance(found, dict):
        both = (str(case.inputs[0][name]) in found["ValueError"] for name in ("n_micro", "n_ranks"))
        return _refusal(case) if all(both) else found
    return oracle.summary(found, _shape(case), WHOLE_TIMES)


def _as_seen(test: Callable[[Look], bool]) -> Callable[[Look], bool]:
    """In a case that has a schedule, which came."""
    return lambda look: look.evidence.ending == RETURNED and "ranks" in look.right[0] and test(look)


def _chunks_reversed(look: Look) -> bool:
    """Some rank goes backward through its first chunk first."""
    if look.case.inputs[0]["n_chunks"] == 1:
        return False
    for rank, row in enumerate(found_rows(look)):
        stages = [step.stage for step in row if step.kind == "B"]
        if stages[0] == rank:
            return True
    return False


def _blocks(look: Look) -> bool:
    """Rank r has stages that lie side by side."""
    inputs = look.case.inputs[0]
    return inputs["n_ranks"] > 1 and all({step.stage for step in row} == set(range(
        rank * inputs["n_chunks"], (rank + 1) * inputs["n_chunks"])) for rank, row in enumerate(found_rows(look)))


def _whole_chunks(look: Look) -> bool:
    """All micro-batches go through a rank's first chunk before its second begins, though there are more than ranks."""
    inputs = look.case.inputs[0]
    row = found_rows(look)[0]
    forwards = [step.stage for step in row if step.kind == "F"]
    return inputs["n_micro"] > inputs["n_ranks"] and inputs["n_chunks"] > 1 and forwards == sorted(forwards)


EXERCISE = Exercise(
    title="Interleaved stages (c)",
    parameters=("n_ranks", "n_chunks", "n_micro"),
    make_cases=_cases,
    oracle=_oracle,
    tolerance=1e-9,
    points={VALUES: 4},
    optional=True,
    technique=Technique(
        reading=_reading,
        demands=(only_calls(id="communicates", hint="A schedule is data: no message is needed to make one."),),
        symptoms=(
        Symptom("micro-batches do not divide", "Where n_ranks does not divide n_micro, raise ValueError that names both "
                                               "numbers.", lambda look: "ValueError" in look.right[0]),
        Symptom("refused", "Here n_ranks divides n_micro: this schedule exists.",
                lambda look: isinstance(look.outputs[0], dict)),
        wrong_number_of_ranks(_shape),
        Symptom("stages side by side", "Rank r has the stages r, r + n_ranks, r + 2·n_ranks, …, not n_chunks that follow "
                                       "one another: only so a micro-batch passes every rank before it returns.",
                _as_seen(_blocks)),
        fault_seen("one chunk only", "Stages are missing: each rank has n_chunks of them.",
                   lambda fault, look: fault.why == "missing" and all(
                       len({step.stage for step in row}) == 1 for row in found_rows(look)), _shape),
        Symptom("chunks forward and backward alike", "Backward goes through a rank's chunks in the opposite order: the last "
                                                     "chunk's gradient comes first.", _as_seen(_chunks_reversed)),
        Symptom("chunk by chunk", "All micro-batches pass a rank's first chunk before its second begins. Take them in "
                                  "groups of n_ranks: a group passes chunk 0, then chunk 1, then comes the next group.",
                _as_seen(_whole_chunks)),
        *fault_symptoms(_shape),
        fault_seen("deadlock", "The schedule cannot run. Of the warm-up: 2·(n_ranks − 1 − r) + (n_chunks − 1)·n_ranks "
                               "forwards on rank r, then a forward and a backward in turn.",
                   lambda fault, look: fault.why == STUCK, _shape),
        Symptom("warm-up too long", "It can run, but more is in flight than need be: the warm-up is 2·(n_ranks − 1 − r) + "
                                    "(n_chunks − 1)·n_ranks forwards.", _as_seen(peaks_differ(+1))),
        Symptom("waits", "It can run, but takes longer than it must: the warm-up is 2·(n_ranks − 1 − r) + (n_chunks − 1)·"
                         "n_ranks forwards, and twice the distance is needed since two steps fit where one did.",
                _as_seen(lambda look: bool(found_rows(look)))),
    ),
    ),
)
