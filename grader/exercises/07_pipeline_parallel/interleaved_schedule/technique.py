"""How interleaved_schedule is read, when it refuses, and what its first fault says."""

from typing import Any

from grader.exercises.technique.generators import NO_MESSAGE, WHOLE_TIMES, Generator, rows_of
from grader.judging.exercise import Case, Look, Symptom, Technique
from utils.schedules.faults import STUCK
from utils.schedules.schedule import Shape

CHUNK_BY_CHUNK = ("All micro-batches pass a rank's first chunk before its second begins. Take them in groups of n_ranks: a "
                  "group passes chunk 0, then chunk 1, then comes the next group.")


def _shape(case: Case) -> Shape:
    inputs = case.inputs[0]
    return Shape(inputs["n_ranks"], inputs["n_ranks"] * inputs["n_chunks"], inputs["n_micro"])


INTERLEAVED = Generator(_shape, WHOLE_TIMES)


def _refusal(case: Case) -> dict[str, str]:
    return {"ValueError": f"names {case.inputs[0]['n_micro']} and {case.inputs[0]['n_ranks']}"}


def reading(case: Case, found: Any) -> Any:
    if isinstance(found, dict):
        both = (str(case.inputs[0][name]) in found["ValueError"] for name in ("n_micro", "n_ranks"))
        return _refusal(case) if all(both) else found
    return INTERLEAVED.reading(case, found)


def _made(look: Look) -> bool:
    """In a case that has a schedule."""
    return "ranks" in look.right[0]


def _whole_chunks(look: Look) -> bool:
    """All micro-batches go through a rank's first chunk before its second begins, though there are more than ranks."""
    inputs = look.case.inputs[0]
    forwards = [step.stage for step in rows_of(look)[0] if step.kind == "F"]
    return (_made(look) and inputs["n_micro"] > inputs["n_ranks"] and inputs["n_chunks"] > 1 and forwards == sorted(forwards)
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
        Symptom("chunk by chunk", CHUNK_BY_CHUNK, _whole_chunks),
        *INTERLEAVED.own_fault_symptoms(),
        INTERLEAVED.fault_seen("deadlock", "The schedule cannot run. Of the warm-up: 2·(n_ranks − 1 − r) + "
                                           "(n_chunks − 1)·n_ranks forwards on rank r, then a forward and a backward in "
                                           "turn.", STUCK),
        Symptom("warm-up too long", "It can run, but more is in flight than need be: the warm-up is 2·(n_ranks − 1 − r) + "
                                    "(n_chunks − 1)·n_ranks forwards.", lambda look: max(INTERLEAVED.surplus(look)) > 0),
        Symptom("waits", "It can run, but takes longer than it must: the warm-up is 2·(n_ranks − 1 − r) + (n_chunks − 1)·"
                         "n_ranks forwards, and twice the distance is needed since two steps fit where one did.",
                lambda look: _made(look) and INTERLEAVED.can_run(look)),
    ),
)
