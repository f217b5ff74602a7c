"""How split_batch must be done, and how it can fail."""

from grader.exercises.technique.refusals import error_missing, error_without_sizes
from grader.judging.demands import only_calls
from grader.judging.exercise import Technique

TECHNIQUE = Technique(
    demands=(only_calls(id="communicates", hint="This is slicing: no message is needed."),),
    symptoms=(
        error_missing("Where the micro-batches do not divide the rows, raise ValueError: the mean of means would not be the "
                      "mean."),
        error_without_sizes("The error is raised, but it does not name the rows and the number of micro-batches: name "
                            "both."),
    ),
)
