"""How step_seconds must be done, and where it first differs."""

from grader.exercises.technique.planned import first_wrong, planned
from grader.judging.exercise import Symptom

TECHNIQUE = planned(
    Symptom("compute wrong", first_wrong("compute")),
    Symptom("messages wrong", first_wrong("tp", "pp", "dp")),
    Symptom("bubble wrong", first_wrong("bubble")),
)
