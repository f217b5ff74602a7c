"""An uneven all-to-all of rows whose numbers travel first; its gradient goes the way back."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.conjugates import DIFFERENTIABLE
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(counts: Sequence[Sequence[Sequence[int]]], width: int, dtype: torch.dtype = torch.float64,
               transposed: bool = False) -> list[dict[str, Any]]:
        """counts[s][r][j]: rows from rank s for expert j of rank r."""
        counts_nne = torch.tensor(counts)
        return [{"rows": draw.tensor(int(own.sum()), width, dtype=dtype) / 7, "counts": own,
                 "weights": draw.tensor(int(counts_nne[:, r].sum()), width, dtype=dtype) / 7, "transposed": transposed}
                for r, own in enumerate(counts_nne)]

    def some(n: int, e: int) -> list[list[list[int]]]:
        """Some are 0; each rank sends something to another one."""
        return [[[max(0, draw.integer(-1, 3)) + (j == 0 and r == (s + 1) % n) for j in range(e)] for r in range(n)]
                for s in range(n)]

    cases = [Case(f"{ranks(1)}, 3 experts", tuple(inputs([[[2, 0, 1]]], 3))),
             Case(f"{ranks(2)}, 2 experts each", tuple(inputs([[[1, 2], [3, 0]], [[2, 2], [1, 4]]], 4))),
             Case(f"{ranks(3)}, all rows to rank 1, none of rank 2", tuple(inputs([[[0], [k], [0]] for k in (2, 5, 0)], 3))),
             Case(f"{ranks(4)}, 3 experts each, transposed, float32",
                  tuple(inputs(some(4, 3), 5, torch.float32, transposed=True)))]
    more = inputs(some(3, 2), 6), inputs([[[2], [2]], [[2], [2]]], 4)  # drawn always: what follows is the same
    if grading:
        cases += [Case(f"{ranks(3)}, 2 experts each", tuple(more[0])), Case(f"{ranks(2)}, evenly", tuple(more[1]))]
    return [*cases, group_case(lambda n: inputs(some(n, 2), 4), "2 experts each")]


def _right(case: Case, rank: int) -> dict[str, Tensor]:
    """Cut and joined by one process."""
    r, members = case.group_rank(rank), case.members(rank)
    received = [case.inputs[member]["rows"].split(case.inputs[member]["counts"].sum(1).tolist())[r] for member in members]
    back = [case.inputs[member]["weights"].split(_came(case, member).sum(1).tolist())[r] for member in members]
    return {"received": torch.cat(received), "came": _came(case, rank), "drows": torch.cat(back)}


def _came(case: Case, rank: int) -> Tensor:
    """(n, e): how many rows each member has for each of this rank's experts."""
    return torch.stack([counts[case.group_rank(rank)] for counts in case.peers_inputs(rank, "counts")])


EXERCISE = Exercise(
    title="Rows to where they belong",
    parameters=("rows", "counts", "group"),
    forbidden=DIFFERENTIABLE,
    make_cases=_cases,
    oracle=each_rank(_right),
)
