"""How split_layers must be done, and how it can fail."""

from grader.exercises.technique.cutting import cutting

TECHNIQUE = cutting(
    no_message="This is arithmetic: no message is needed.",
    no_error="With more stages than layers some stage would have none: raise ValueError then.",
    not_named="The error is raised, but it does not say how many layers and stages there were: name both.",
)
