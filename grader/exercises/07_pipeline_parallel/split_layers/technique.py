"""How split_layers must be done, and how it can fail."""

from grader.exercises.technique.refusals import error_missing, error_without_sizes
from grader.judging.demands import only_calls
from grader.judging.exercise import Technique

TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
    symptoms=(
        error_missing("With more stages than layers some stage would have none: raise ValueError then."),
        error_without_sizes("The error is raised, but it does not say how many layers and stages there were: name both."),
    ),
)
