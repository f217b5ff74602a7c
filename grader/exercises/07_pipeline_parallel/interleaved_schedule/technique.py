"""How interleaved_schedule is read, when it refuses, and what its first fault says."""

from collections.abc import Callable
from typing import Any

from grader.exercises.technique.generators import (
    NO_MESSAGE,
    WHOLE_TIMES,
    can_run,
    fault_seen,
    own_fault_symptoms,
    peaks_differ,
    rows_of,
)
from grader.exercises.technique.schedules import summary
from grader.judging.exercise import Case, Look, Symptom, Technique
from utils.schedules.faults import STUCK
from utils.schedules.schedule import Shape

CHUNK_BY_CHUNK = ("All micro-batches pass a rank's first chunk before its second begins. Take them in groups of n_ranks: a "
                  "group passes chunk 0, then chunk 1, then comes the next group.")


def _shape(case: Case) -> Shape:
    inputs = case.inputs[0]
    return Shape(inputs["n_ranks"], inputs["n_ranks"] * inputs["n_chunks"], inputs["n_micro"])


def refusal(case: Case) -> dict[str, str]:
    return {"ValueError": f"names {case.inputs[0]['n_micro']} and {case.inputs[0]['n_ranks']}"}


def reading(case: Case, found: Any) -> Any:
    if isinstance(found, dict):
        both = (str(case.inputs[0][name]) in found["ValueError"] for name in ("n_micro", "n_ranks"))
        return refusal(case) if all(both) else found
    return summary(found, _shape(case), WHOLE_TIMES)


def _made(test: Callable[[Look], bool]) -> Callable[[Look], bool]:
    """In a case that has a schedule."""
    return lambda look: "ranks" in look.right[0] and test(look)


def _whole_chunks(look: Look) -> bool:
    """All micro-batches go through a rank's first chunk before its second begins, though there are more than ranks."""
    inputs = look.case.inputs[0]
    forwards = [step.stage for step in rows_of(look)[0] if step.kind == "F"]
    return (inputs["n_micro"] > inputs["n_ranks"] and inputs["n_chunks"] > 1 and forwards == sorted(forwards)
            and len(set(forwards)) > 1)


TECHNIQUE = Technique(
    reading=reading,
    demands=(NO_MESSAGE,),
    symptoms=(
        Symptom("micro-batches do not divide", "Where n_ranks does not divide n_micro, raise ValueError that names both "
                                               "numbers.", lambda look: "ValueError" in look.right[0]),
        Symptom("refused", "Here n_ranks divides n_micro: this schedule exists.",
                lambda look: isinstance(look.outputs[0], dict)),
    ),
    fallbacks=(
        Symptom("chunk by chunk", CHUNK_BY_CHUNK, _made(_whole_chunks)),
        *own_fault_symptoms(_shape),
        fault_seen("deadlock", "The schedule cannot run. Of the warm-up: 2·(n_ranks − 1 − r) + (n_chunks − 1)·n_ranks "
                               "forwards on rank r, then a forward and a backward in turn.",
                   lambda fault: fault.why == STUCK, _shape),
        Symptom("warm-up too long", "It can run, but more is in flight than need be: the warm-up is 2·(n_ranks − 1 − r) + "
                                    "(n_chunks − 1)·n_ranks forwards.", _made(peaks_differ(+1, _shape))),
        Symptom("waits", "It can run, but takes longer than it must: the warm-up is 2·(n_ranks − 1 − r) + (n_chunks − 1)·"
                         "n_ranks forwards, and twice the distance is needed since two steps fit where one did.",
                _made(can_run(_shape))),
    ),
)
