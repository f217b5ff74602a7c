"""An uneven all-to-all of rows whose numbers travel first; its gradient goes the way back."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.conjugates import DIFFERENTIABLE
from grader.exercises.shared.exchanges import came, given_back, received
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.judging.exercise import Case, Draw, Exercise, Slip


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
    back = torch.cat(given_back(case, rank))
    return {"received": torch.cat(received(case, rank)), "came": came(case, rank), "drows": back}


# ── slips ──


def _slip(id: str, part: str, hint: str, wrong: Callable[[Case, int], Any]) -> Slip:
    """`part` is wrong(case, rank), what stands before it is right, the rest may be anything."""
    return first_wrong_slip(id, hint, part, lambda case, rank, right: wrong(case, rank),
                            shows=(lambda case: _all_go_back(case, wrong)) if part == "received" else lambda case: True)


def _all_go_back(case: Case, received: Callable[[Case, int], Tensor]) -> bool:
    """Whether these rows are of a size that goes back on all ranks of a group, or on none: else some wait for others."""
    fits = [received(case, rank).shape == case.inputs[rank]["weights"].shape for rank in range(case.world_size)]
    return all(fits[rank] == fits[case.members(rank)[0]] for rank in range(case.world_size))


def _by_expert(case: Case, rank: int) -> Tensor:
    """The rows sorted by expert, not by rank."""
    pieces = [rows.split(numbers.tolist()) for rows, numbers in zip(received(case, rank), came(case, rank), strict=True)]
    return torch.cat([of_rank[j] for j in range(came(case, rank).shape[1]) for of_rank in pieces])


def _own_left_out(case: Case, rank: int) -> Tensor:
    others = [rows for r, rows in enumerate(received(case, rank)) if r != case.group_rank(rank)]
    return torch.cat([received(case, rank)[0][:0], *others])


def _own_kept_only(case: Case, rank: int) -> Tensor:
    """Only the gradient of those rows that stayed here."""
    r = case.group_rank(rank)
    return torch.cat([own if to == r else own * 0 for to, own in enumerate(given_back(case, rank))])


EXERCISE = Exercise(
    title="Rows to where they belong",
    parameters=("rows", "counts", "group"),
    forbidden=DIFFERENTIABLE,
    make_cases=_cases,
    oracle=each_rank(_right),
    slips=(
        _slip("not sent", "received", "A rank returns its own rows: what arrived is not used.",
              lambda case, rank: case.inputs[rank]["rows"]),
        _slip("senders in reverse", "received", "The pieces are joined in the wrong order: rank 0's rows come first.",
              lambda case, rank: torch.cat(received(case, rank)[::-1])),
        _slip("sorted by expert", "received", "The rows are sorted by expert: leave them as they came, by rank. Sorting is "
              "for those who compute with them, and the way back needs the order of coming.", _by_expert),
        _slip("own rows left out", "received", "What a rank has for itself is missing: it goes through the all-to-all too, "
              "though nothing of it is sent.", _own_left_out),
        _slip("own counts returned", "came", "The counts that are returned are those that were sent: the caller needs those "
              "that came.", lambda case, rank: case.inputs[rank]["counts"]),
        _slip("counts summed", "came", "Only the sum of a rank's counts is returned, one number a rank: whose rows they are "
              "is lost. Send all of counts_ne.", lambda case, rank: came(case, rank).sum(1)),
        _slip("counts transposed", "came", "The counts that came have experts first: came_ne has one row for each sender.",
              lambda case, rank: came(case, rank).T),
        *(first_wrong_slip("gradient scaled", "received is right, its gradient is n times too large or too small: every row "
                           "is in one place only, so its gradient comes back as it is.", "drows",
                           lambda case, r, right, power=power: right * float(case.group_size(r)) ** power)
          for power in (1, -1)),
        _slip("gradients in reverse", "drows", "The gradients come back in the wrong order: those from rank 0 first, for "
              "rows_RD has its rows first.", lambda case, rank: torch.cat(given_back(case, rank)[::-1])),
        _slip("gradient of own rows only", "drows", "Only the rows that stayed here have a gradient: what the others "
              "received sends its gradient back.", _own_kept_only),
    ),
)
