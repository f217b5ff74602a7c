"""How device_traffic must be done, and where it first differs."""

from grader.exercises.technique.planned import only, planned
from grader.judging.exercise import Symptom

TECHNIQUE = planned(*(Symptom(f"{axis} wrong", only(axis)) for axis in ("tp", "pp", "dp")))
