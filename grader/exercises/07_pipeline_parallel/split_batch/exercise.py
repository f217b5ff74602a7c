"""A batch into micro-batches: pieces of one size along the first dim."""

from collections.abc import Sequence
from typing import Any

from grader.evidence.case import REFUSED
from grader.exercises.shared.cases import each_rank
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    m, rows = draw.integer(2, 4), draw.integer(5, 7)
    sizes = [((12, 12), 4), ((6, 5), 1), ((5, 3), 5), ((m * rows, 4, 2), m), ((10, 8), 4), ((2, 6), 3)]
    if grading:
        sizes += [((6 * m, 3), 3), ((m * rows + 1, 2), m)]
    return [Case(f"{'×'.join(map(str, shape))} into {m} micro-batch{'es' * (m > 1)}",
                 ({"x": draw.tensor(*shape), "n_micro": m},)) for shape, m in sizes]


def _expected(case: Case, rank: int) -> dict[str, Any]:
    x, n_micro = case.inputs[rank].values()
    if len(x) % n_micro:
        return {REFUSED: [len(x), n_micro]}
    return {"parts": list(x.chunk(n_micro))}


EXERCISE = Exercise(
    title="Cut the batch into micro-batches",
    parameters=("x_BD", "n_micro"),
    make_cases=_cases,
    oracle=each_rank(_expected),
    points={VALUES: 2},
)
