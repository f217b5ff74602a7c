"""The idle share of a pipeline, by both conventions: of the ideal time, and of all the time."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def fractions(p: int, m: int, v: int) -> tuple[float, float]:
    return (p - 1) / (v * m), (p - 1) / (v * m + p - 1)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    p = draw.integer(5, 9)
    sizes = [(4, 8, 1), (8, 8, 2), (1, 5, 1), (3, 1, 1), (p, p * draw.integer(2, 4), 3)]  # with chunks, p divides m
    if grading:
        sizes += [(p := draw.integer(2, 16), p * draw.integer(1, 4), draw.integer(1, 4)) for _ in range(3)]
        sizes += [(draw.integer(2, 16), draw.integer(2, 64), 1)]
    return [Case(f"{p} rank{'s' * (p > 1)}, {m} micro-batch{'es' * (m > 1)}, {v} chunk{'s' * (v > 1)} per rank",
                 ({"n_ranks": p, "n_micro": m, "n_chunks": v},)) for p, m, v in sizes]


EXERCISE = Exercise(
    title="The bubble, by both conventions",
    forbidden=FORMULAS,
    parameters=("n_ranks", "n_micro", "n_chunks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: fractions(*case.inputs[r].values())),
    tolerance=1e-6,
    points={VALUES: 2},
)
