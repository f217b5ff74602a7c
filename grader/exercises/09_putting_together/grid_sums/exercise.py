"""Ranks in a grid: a group for each row and each column, an all-reduce in both."""

from collections.abc import Callable

import torch

from grader.exercises.shared.cases import each_rank, total, xs_of
from grader.exercises.shared.meshes import MESHES
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> list[Case]:
    grids = [(1, 1), (1, 3), (2, 2), (2, 3), (3, 2)]
    if grading:
        grids += [(4, 1), (2, 4)]
    return [Case(f"{n_rows} × {n_cols} grid", tuple(
        {"x": x, "n_rows": n_rows, "n_cols": n_cols} for x in draw.tensors(n_rows * n_cols, draw.integer(1, 4))))
        for n_rows, n_cols in grids]


def _sum_where(case: Case, rank: int, line: Callable[[int], int]) -> torch.Tensor:
    """The sum over the ranks that are in the same line as `rank`."""
    return total([x for peer, x in enumerate(xs_of(case, rank)) if line(peer) == line(rank)])


def _sums(case: Case, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Over the row and over the column."""
    n_cols = case.inputs[0]["n_cols"]
    return _sum_where(case, rank, lambda peer: peer // n_cols), _sum_where(case, rank, lambda peer: peer % n_cols)


EXERCISE = Exercise(
    title="Sums over rows and columns of a grid of ranks",
    parameters=("x", "n_rows", "n_cols"),
    make_cases=_cases,
    forbidden=MESHES,
    oracle=each_rank(_sums),
)
