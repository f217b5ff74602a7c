"""How zero1_bytes must be done, and how it can fail."""

from grader.exercises.technique.arithmetic import arithmetic, whole_bytes

TECHNIQUE = arithmetic(whole_bytes("n need not divide 12Ψ: use /, not //."))
