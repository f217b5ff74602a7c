"""How one_f_one_b_schedule is read, and what its first fault says."""

from grader.exercises.technique.generators import NO_MESSAGE, PLAIN, rows_of
from grader.judging.exercise import Look, Symptom, Technique
from utils.schedules.faults import STUCK


def _newest_first(look: Look) -> bool:
    """On some rank micro-batches do not go backward in the order in which they went forward."""
    by_kind = [{kind: [step.micro for step in row if step.kind == kind] for kind in "FB"} for row in rows_of(look)]
    return any(row["F"] != row["B"] for row in by_kind if sorted(row["F"]) == sorted(row["B"]))


TECHNIQUE = Technique(
    call="schedules_run:call_generator",
    reading=PLAIN.reading,
    demands=(NO_MESSAGE,),
    fallbacks=(
        *PLAIN.own_fault_symptoms(),
        Symptom("newest first", _newest_first),
        PLAIN.fault_seen("deadlock", STUCK),
        Symptom("too many in flight", lambda look: max(PLAIN.surplus(look)) > 0),
        Symptom("warm-up too short", lambda look: min(PLAIN.surplus(look)) < 0),
    ),
)
