"""(2 + 14/N)·Ψ: what a rank holds under ZeRO-2 in mixed precision."""

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.zero_cases import byte_cases, bytes_slip
from grader.judging.exercise import VALUES, Exercise

PARAMETERS = ("That divides everything: the 2 bytes of each parameter itself still stand on every rank. (Some notes have "
              "(2 + K)Ψ/N here; it is 2Ψ + (2 + K)Ψ/N.)")


def _held(n_parameters: int, n_ranks: int) -> float:
    return (2 + 14 / n_ranks) * n_parameters


EXERCISE = Exercise(
    title="Predict what a rank holds",
    parameters=("n_parameters", "n_ranks"),
    make_cases=byte_cases,
    oracle=each_rank(lambda case, r: _held(**case.inputs[r])),
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        bytes_slip("parameters forgotten", lambda n: 16 / n, PARAMETERS),
        bytes_slip("parameters forgotten", lambda n: 14 / n, PARAMETERS),
        bytes_slip("gradients whole", lambda n: 4 + 12 / n, "(4 + 12/N)Ψ is ZeRO-1: here the gradients are divided too."),
        bytes_slip("nothing divided", lambda n: 16, "That is data parallelism's 16 bytes a parameter."),
        bytes_slip("state whole", lambda n: 14 + 2 / n, "The gradients are divided, and so is, since ZeRO-1, the "
                                                        "optimizer's state."),
    ),
)
