"""A batch into micro-batches: pieces of one size along the first dim."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from grader.exercises.shared.cases import each_rank
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


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
        return {"ValueError names": [len(x), n_micro]}
    return {"parts": list(x.chunk(n_micro))}


def _cut(id: str, hint: str, cut: Callable[[Tensor, int], Sequence[Tensor]]) -> Slip:
    """The parts of another cut, of a batch that can be cut."""
    return Slip(id, hint, lambda case, rank, right: (
        {"parts": list(cut(*case.inputs[rank].values()))} if "parts" in right[rank] else right[rank]))


EXERCISE = Exercise(
    title="Cut the batch into micro-batches",
    parameters=("x_BD", "n_micro"),
    make_cases=_cases,
    oracle=each_rank(_expected),
    points={VALUES: 2},
    slips=(
        _cut("number for size", "The micro-batches have n_micro rows each: n_micro is how many there are, not how long.",
             lambda x, m: x.split(m)),
        _cut("dealt like cards", "Rows are dealt out like cards: a micro-batch is rows that follow one another.",
             lambda x, m: [x[k::m] for k in range(m)]),
        _cut("columns cut", "Columns were cut in place of rows: the batch is dim 0.", lambda x, m: x.chunk(m, -1)),
        _cut("whole batch each time", "Every micro-batch is the whole batch.", lambda x, m: [x] * m),
        _cut("rows at a time", "Each micro-batch has one row only: there are n_micro of them, with B/n_micro rows each.",
             lambda x, m: x[:m].split(1)),
    ),
)
