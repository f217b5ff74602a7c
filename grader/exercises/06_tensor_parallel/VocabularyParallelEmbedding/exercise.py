"""VocabularyParallelEmbedding (challenge): the rows of an embedding split over the ranks, one all-reduce to look up."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import group_case, ranks, total
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import first_wrong_slip, or_refused
from grader.judging.exercise import Case, Draw, Exercise

from .technique import TOLERANCE

DIM = 3


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: int, shape: tuple[int, ...], dtype: str = "float64") -> tuple[dict[str, Any], ...]:
        kind, vocabulary = getattr(torch, dtype), n * rows
        ids = torch.arange(torch.Size(shape).numel()).view(shape) * draw.integer(5, 9) * vocabulary // 7 % vocabulary
        ids.view(-1)[:2] = torch.tensor([0, vocabulary - 1])
        table = draw.tensor(vocabulary, DIM, dtype=torch.float64).to(kind)
        return ({"table": table, "ids": ids, "weights": draw.tensor(*shape, DIM).to(kind),
                 "refused": None},) * n

    sizes = [(1, 5, (2, 3)), (2, 3, (7,)), (4, 5, (3, 5))]
    if grading:
        sizes.append((3, 2, (2, 3, 2)))
    cases = [Case(f"{ranks(n)}, {n * rows} rows, ids {list(shape)}", inputs(n, rows, shape)) for n, rows, shape in sizes]
    cases.append(Case("3 ranks, 12 rows, float32", inputs(3, 4, (2, 7), "float32")))
    if grading:
        cases.append(Case("4 ranks, weighed", tuple(own | {WEIGHED: True} for own in inputs(4, 400_000, (7,)))))
    groups = group_case(lambda n: inputs(n, 3, (2, 4)), "3 rows each")
    odd = [{**even, "table": draw.tensor(7, DIM, dtype=torch.float64), "ids": torch.tensor([0, 1]), "refused": [7, 2]}
           for even in inputs(2, 3, (2,))]
    return [*cases, groups, Case("2 ranks, 7 rows: refused", tuple(odd))]


def _right(case: Case, rank: int) -> dict[str, Any]:
    inputs = case.inputs[rank]
    gradient = own_piece(case, rank, _whole_gradient(case, rank))
    return {"weight": own_piece(case, rank, inputs["table"]), "y": inputs["table"][inputs["ids"]], "dweight": gradient}


def _whole_gradient(case: Case, rank: int) -> Tensor:
    """Of the whole table."""
    inputs = case.inputs[rank]
    table = inputs["table"].clone().requires_grad_()
    (table[inputs["ids"]] * inputs["weights"]).sum().backward()
    return table.grad


def _looked_up_everywhere(of_foreign: Callable[[Tensor, int], Tensor]) -> Callable[[Case, int, Tensor], Tensor]:
    """Every rank adds a row for every id. of_foreign(ids less the rank's first, P): the rows that are looked up."""

    def y(case: Case, rank: int, right: Tensor) -> Tensor:
        inputs, n = case.inputs[rank], case.group_size(rank)
        rows = len(inputs["table"]) // n
        return sum(own[of_foreign(inputs["ids"] - member * rows, rows)]
                   for member, own in enumerate(inputs["table"].chunk(n)))

    return y


def _without_rows(row: Callable[[int], int]) -> Callable[[Case, int, Tensor], Tensor]:
    """Row row(P) of each rank's P is taken for a foreign one."""

    def y(case: Case, rank: int, right: Tensor) -> Tensor:
        rows = len(case.inputs[rank]["table"]) // case.group_size(rank)
        return right * (case.inputs[rank]["ids"] % rows != row(rows))[..., None]

    return y


def _own_ids_only(case: Case, rank: int, right: Tensor) -> Tensor:
    inputs = case.inputs[rank]
    rows = len(inputs["table"]) // case.group_size(rank)
    return right * (inputs["ids"] // rows == case.group_rank(rank))[..., None]


EXERCISE = Exercise(
    title="(c) An embedding, split by rows",
    parameters=("embedding", "group"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=or_refused(_right),
    measured=True,
    tolerance=TOLERANCE,
    slips=(
        first_wrong_slip("rows in turn", "A rank's rows must be neighbours, r·V/n to (r+1)·V/n.", "weight",
                         lambda case, r, right: case.inputs[r]["table"][case.group_rank(r)::case.group_size(r)]),
        *(first_wrong_slip("ids not masked", "Every rank adds a row for every id, also for ids of other ranks: their "
                                             "results must be 0 before the all-reduce.", "y", _looked_up_everywhere(of))
          for of in (torch.remainder, lambda ids, rows: ids * ((ids >= 0) & (ids < rows)),
                     lambda ids, rows: ids.clamp(0, rows - 1))),
        first_wrong_slip("first own row lost", "Each rank's first row is taken for a foreign one: its own ids are those "
                                               "with start ≤ id < stop.", "y", _without_rows(lambda rows: 0)),
        first_wrong_slip("last own row lost", "Each rank's last row is taken for a foreign one: its own ids are those with "
                                              "start ≤ id < stop.", "y", _without_rows(lambda rows: rows - 1)),
        first_wrong_slip("mean", "y is n times too small: one rank has the row and the others add 0, so it is a sum.", "y",
                         lambda case, r, right: right / case.group_size(r)),
        first_wrong_slip("gradients of different rows summed", (
            "y is right, but the gradients of different ranks' rows were added up: each rank's weight is its own."),
            "dweight", lambda case, r, right: total(_whole_gradient(case, r).chunk(case.group_size(r)))),
        first_wrong_slip("y not summed", "y has your ids' rows only: sum over ranks (g).", "y", _own_ids_only),
        first_wrong_slip("gradient n times", "y is right, the gradient is n times too large: after the all-reduce, backward "
                                             "passes dy on as it is (g).", "dweight",
                         lambda case, r, right: right * case.group_size(r)),
    ),
)
