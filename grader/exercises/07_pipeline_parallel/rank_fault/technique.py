"""How rank_fault is read."""

from grader.exercises.technique.schedules import sentences
from grader.judging.demands import only_calls
from grader.judging.exercise import Technique

TECHNIQUE = Technique(
    reading=lambda case, found: sentences(found),
    demands=(only_calls(id="communicates", hint="This is a question about data: no message is needed."),),
)
