"""A hook has reduced each gradient: once is enough."""

from grader.exercises.shared.hunted import of_replicas

EXERCISE = of_replicas("Case 6: gradients that grow")
