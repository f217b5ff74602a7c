"""(4 + 12/N)·Ψ: what a rank holds under ZeRO-1 in mixed precision."""

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.zero_cases import byte_cases, bytes_slip
from grader.judging.exercise import VALUES, Exercise


def _held(n_parameters: int, n_ranks: int) -> float:
    return (4 + 12 / n_ranks) * n_parameters


EXERCISE = Exercise(
    title="Predict what a rank holds",
    parameters=("n_parameters", "n_ranks"),
    make_cases=byte_cases,
    oracle=each_rank(lambda case, r: _held(**case.inputs[r])),
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        bytes_slip("nothing divided", lambda n: 16, "That is data parallelism's 16 bytes a parameter: the 12 of master "
                                                    "copy, momentum and variance are shared out."),
        bytes_slip("all divided", lambda n: 16 / n, "Parameters and gradients (2 + 2 bytes) are still whole on every rank."),
        bytes_slip("gradients divided", lambda n: 2 + 14 / n, "ZeRO-1 keeps whole gradients: dividing them too is ZeRO-2."),
        bytes_slip("master copy whole", lambda n: 8 + 8 / n, "(8 + 8/N)Ψ: the float32 master copy is part of the "
                                                             "optimizer's state and divided too."),
    ),
)
