"""How zero_bytes must be done."""

from grader.exercises.technique.arithmetic import arithmetic

TECHNIQUE = arithmetic()
