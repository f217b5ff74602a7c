"""What is demanded of case_1, and how it can fail."""

from grader.exercises.technique.hunted import gradients_once, repaired

TECHNIQUE = repaired(gradients_once)
