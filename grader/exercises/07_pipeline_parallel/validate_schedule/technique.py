"""How validate_schedule is read, and how it can fail."""

from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique.schedules import sentences
from grader.judging.demands import only_calls
from grader.judging.exercise import Symptom, Technique
from grader.judging.symptoms import raised

TECHNIQUE = Technique(
    reading=lambda case, found: sentences(found),
    demands=(only_calls(id="communicates", hint="This is a question about data: no message is needed."),),
    symptoms=(
        raised("list index out of range", "There may be fewer lists than ranks: what such a rank should do is MISSING.",
               "rank without a list"),
        Symptom("endless", "It never ends: when no rank has moved for a whole round, none ever will. Stop then.",
                lambda look: look.evidence.ending not in (RETURNED, RAISED)),
    ),
)
