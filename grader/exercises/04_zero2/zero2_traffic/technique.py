"""How zero2_traffic must be done."""

from grader.exercises.technique.arithmetic import arithmetic

TECHNIQUE = arithmetic()
