"""How split_batch must be done, and how it can fail."""

from grader.exercises.technique.cutting import cutting

TECHNIQUE = cutting(
    no_message="This is slicing: no message is needed.",
    no_error="Where the micro-batches do not divide the rows, raise ValueError: the mean of means would not be the mean.",
    not_named="The error is raised, but it does not name the rows and the number of micro-batches: name both.",
)
