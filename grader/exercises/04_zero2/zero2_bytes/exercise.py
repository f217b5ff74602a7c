"""(2 + 14/N)·Ψ: what a rank holds under ZeRO-2 in mixed precision."""

from grader.exercises.shared.zero_cases import bytes_exercise

PARAMETERS = ("That divides everything: the 2 bytes of each parameter itself still stand on every rank. (Some notes have "
              "(2 + K)Ψ/N here; it is 2Ψ + (2 + K)Ψ/N.)")

EXERCISE = bytes_exercise(
    lambda n: 2 + 14 / n,
    ("parameters forgotten", lambda n: 16 / n, PARAMETERS),
    ("parameters forgotten", lambda n: 14 / n, PARAMETERS),
    ("gradients whole", lambda n: 4 + 12 / n, "(4 + 12/N)Ψ is ZeRO-1: here the gradients are divided too."),
    ("nothing divided", lambda n: 16, "That is data parallelism's 16 bytes a parameter."),
    ("state whole", lambda n: 14 + 2 / n, "The gradients are divided, and so is, since ZeRO-1, the optimizer's state."),
)
