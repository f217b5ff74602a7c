"""Shard the batch: this rank's rows of it, one piece, sizes that differ by one at most."""

import torch

from grader.exercises.shared.cases import TWO_GROUPS, counted, each_rank, ranks
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> list[Case]:
    sizes = [(1, 3), (2, 2 * draw.integer(1, 3)), (3, 3 * draw.integer(2, 4) + 1), (4, 4 * draw.integer(1, 3) + 3), (4, 2)]
    if grading:
        sizes += [(5, 5 * draw.integer(1, 2) + 4), (3, 1)]
    cases = []
    for n, rows in sizes:
        unlike = rows == 2 < n  # an empty share has the batch's dtype and its other dims, too
        x_BD = draw.tensor(rows, 2, *[3] * unlike, dtype=torch.float64 if unlike else torch.float32)
        cases.append(Case(f"{counted(rows, 'row')} on {ranks(n)}", ({"x_BD": x_BD},) * n))
    x_BD = draw.tensor(7, 2, dtype=torch.float64)
    return [*cases, Case("7 rows in groups (1,3,4) and (0,2)", ({"x_BD": x_BD},) * 5, TWO_GROUPS)]


def _rows(x_BD: torch.Tensor, r: int, n: int) -> torch.Tensor:
    """The first B mod n ranks have one more."""
    size, extra = divmod(len(x_BD), n)
    start = r * size + min(r, extra)
    return x_BD[start:start + size + (r < extra)]


EXERCISE = Exercise(
    title="Shard the batch",
    parameters=("x_BD", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _rows(case.inputs[r]["x_BD"], case.group_rank(r), case.group_size(r))),
    points={VALUES: 2},
)
