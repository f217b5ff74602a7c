"""Ranks in a grid: a group for each row and each column, an all-reduce in both."""

from collections.abc import Callable

import torch

from grader.exercises.shared.cases import each_rank, total, xs_of
from grader.exercises.shared.meshes import MESHES
from grader.judging.exercise import Case, Draw, Exercise, Slip


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


def _numbered_down(case: Case, rank: int, right: list) -> tuple[torch.Tensor, torch.Tensor]:
    """Both sums if the grid were numbered down its columns."""
    n_rows = case.inputs[0]["n_rows"]
    return _sum_where(case, rank, lambda peer: peer % n_rows), _sum_where(case, rank, lambda peer: peer // n_rows)


_OF_A_SUM = ("One sum is right, the other is that of all ranks: it was made from a tensor that already held a sum, since "
             "all_reduce overwrites its argument; start both from x.clone().")

EXERCISE = Exercise(
    title="Sums over rows and columns of a grid of ranks",
    parameters=("x", "n_rows", "n_cols"),
    make_cases=_cases,
    forbidden=MESHES,
    oracle=each_rank(_sums),
    slips=(
        Slip("rows and columns swapped", "The two sums are each other's: ranks of a row share rank // n_cols, ranks of a "
                                         "column share rank % n_cols, and the row sum comes first.",
             lambda case, r, right: right[r][::-1]),
        Slip("second sum of the first", _OF_A_SUM, lambda case, r, right: (right[r][0], total(xs_of(case, r)))),
        Slip("second sum of the first", _OF_A_SUM, lambda case, r, right: (total(xs_of(case, r)), right[r][1])),
        Slip("mean for sum", "Both are means: sums over row and column are asked, so do not divide by the number of ranks.",
             lambda case, r, right: (right[r][0] / case.inputs[r]["n_cols"], right[r][1] / case.inputs[r]["n_rows"])),
        Slip("own x missing", "Both sums lack this rank's own x: it is part of its row and of its column.",
             lambda case, r, right: tuple(part - case.inputs[r]["x"] for part in right[r])),
        Slip("same tensor twice", "Both results hold the sum of all ranks: they are one tensor, which two all_reduces "
                                  "have overwritten in turn; start each sum from its own x.clone().",
             lambda case, r, right: (total(xs_of(case, r)),) * 2),
        Slip("wrong grid", "The grid is numbered along its rows: rank = row·n_cols + col, so row, col = divmod(rank, "
                           "n_cols). Dividing by n_rows gives another grid unless it is square.", _numbered_down),
    ),
)
