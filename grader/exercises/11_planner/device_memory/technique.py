"""How device_memory must be done, and where it first differs."""

from grader.exercises.technique.planned import only, planned, wrong_parts
from grader.judging.exercise import Symptom

TECHNIQUE = planned(
    Symptom("activations wrong", only("activations")),
    Symptom("logits wrong", only("logits")),
    Symptom("weights wrong", only("parameters", "gradients", "optimizer state")),
    Symptom("several wrong", lambda look: len(wrong_parts(look)) > 1),
)
