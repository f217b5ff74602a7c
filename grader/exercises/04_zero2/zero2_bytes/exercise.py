"""(2 + 14/n)·Ψ: what a rank holds under ZeRO-2 in mixed precision."""

from grader.exercises.shared.zero_cases import bytes_exercise

PARAMETERS = ("That divides everything: the 2 bytes of each parameter itself are still on every rank. (Some notes have "
              "(2 + K)Ψ/n here; it is 2Ψ + (2 + K)Ψ/n.)")

EXERCISE = bytes_exercise(
    lambda n: 2 + 14 / n, 14,
    ("parameters forgotten", lambda n: 16 / n, PARAMETERS),
    ("parameters forgotten", lambda n: 14 / n, PARAMETERS),
    ("gradients whole", lambda n: 4 + 12 / n, "(4 + 12/n)Ψ is ZeRO-1: here the gradients are divided too."),
    ("master copy whole", lambda n: 6 + 10 / n, "6Ψ + 10Ψ/n: the float32 master copy is part of the optimizer's state and "
                                                "divided too."),
    ("rounded down", lambda n: 2 + 14 // n, "14 // n is a whole number, 0 from 15 ranks on: use /."),
    ("state of 8 bytes", lambda n: 2 + 10 / n, "8 bytes are momentum and variance; the float32 master copy, 4 more, is "
                                               "state too: 12, and 2 of gradient."),
    ("gradients in float32", lambda n: 2 + 16 / n, "In mixed precision a gradient has 2 bytes; what is kept in float32 "
                                                   "is a copy of the parameters."),
    ("gradients forgotten", lambda n: 2 + 12 / n, "The gradients' 2 bytes are missing: they are divided as the state is, "
                                                  "but they are there."),
    ("nothing divided", lambda n: 16, "That is data parallelism's 16 bytes a parameter."),
    ("state whole", lambda n: 14 + 2 / n, "The gradients are divided, and so is, since ZeRO-1, the optimizer's state."),
)
