"""4Ψ + 12Ψ/n: what a rank holds under ZeRO-1 in mixed precision."""

from grader.exercises.shared.zero_cases import bytes_exercise

EXERCISE = bytes_exercise(
    lambda n: 4 + 12 / n, 12,
    ("nothing divided", lambda n: 16, "That is data parallelism's 16 bytes a parameter: the 12 of master copy, momentum and "
                                      "variance are shared out."),
    ("all divided", lambda n: 16 / n, "Parameters and gradients (2 + 2 bytes) are still whole on every rank."),
    ("gradients divided", lambda n: 2 + 14 / n, "ZeRO-1 keeps whole gradients: dividing them too is ZeRO-2."),
    ("rounded down", lambda n: 4 + 12 // n, "12 // n is a whole number, 0 from 13 ranks on: use /."),
    ("state of 8 bytes", lambda n: 4 + 8 / n, "8 bytes are momentum and variance; the float32 master copy, 4 more, is state "
                                              "too: 12."),
    ("2 bytes whole", lambda n: 2 + 12 / n, "A parameter and its gradient have 2 bytes each, and both are whole on every "
                                            "rank."),
    ("master copy whole", lambda n: 8 + 8 / n, "8Ψ + 8Ψ/n: the float32 master copy is part of the optimizer's state and "
                                               "divided too."),
)
