"""Data parallel: all parameters, not only the body's."""

from grader.exercises.shared.hunted import of_replicas

EXERCISE = of_replicas("Case 3: two checkpoints")
