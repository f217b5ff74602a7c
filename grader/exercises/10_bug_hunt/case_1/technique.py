"""What is demanded of case_1, and how it can fail."""

from grader.exercises.technique.hunted import gradients_once, gradients_summed, repaired

TECHNIQUE = repaired(gradients_once, gradients_summed)
