"""What is demanded of case_8, and how it can fail."""

from grader.exercises.technique.hunted import gradients_once, gradients_summed, repaired

TECHNIQUE = repaired(gradients_once, gradients_summed)
