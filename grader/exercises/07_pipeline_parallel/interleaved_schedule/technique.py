"""How interleaved_schedule is read, when it refuses, and what its first fault says."""

from typing import Any

from grader.exercises.technique.generators import NO_MESSAGE, WHOLE_TIMES, Generator, rows_of
from grader.judging.exercise import Case, Look, Symptom, Technique
from utils.schedules.faults import STUCK
from utils.schedules.schedule import Shape


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


def _chunks_alike(look: Look) -> bool:
    """The first gradients are those of a rank's first chunk, though its last chunk is the nearer to the loss."""
    backwards = [step.stage for step in rows_of(look)[0] if step.kind == "B"]
    return _made(look) and look.case.inputs[0]["n_chunks"] > 1 and backwards[:1] == [0]


TECHNIQUE = Technique(
    call="schedules_run:call_generator",
    reading=reading,
    demands=(NO_MESSAGE,),
    symptoms=(
        Symptom("micro-batches do not divide", lambda look: "ValueError" in look.right[0]),
        Symptom("refused", lambda look: isinstance(look.outputs[0], dict)),
    ),
    fallbacks=(
        Symptom("chunk by chunk", _whole_chunks),
        *INTERLEAVED.own_fault_symptoms(),
        Symptom("chunks forward and backward alike", _chunks_alike),
        INTERLEAVED.fault_seen("deadlock", STUCK),
        Symptom("warm-up too long", lambda look: max(INTERLEAVED.surplus(look)) > 0),
        Symptom("waits", lambda look: _made(look) and INTERLEAVED.can_run(look)),
    ),
)
