"""VocabularyParallelEmbedding (challenge): the rows of an embedding split over the ranks, one all-reduce to look up."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import group_case, ranks
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
        return ({"table": draw.tensor(vocabulary, DIM).to(kind), "ids": ids, "weights": draw.tensor(*shape, DIM).to(kind),
                 "refused": None},) * n

    sizes = [(1, 5, (2, 3)), (2, 3, (7,)), (4, 5, (3, 5))]
    if grading:
        sizes.append((3, 2, (2, 3, 2)))
    cases = [Case(f"{ranks(n)}, {n * rows} rows, ids {list(shape)}", inputs(n, rows, shape)) for n, rows, shape in sizes]
    cases.append(Case("3 ranks, 12 rows, float32", inputs(3, 4, (2, 7), "float32")))
    groups = group_case(lambda n: inputs(n, 3, (2, 4)), "3 rows each")
    odd = [{**even, "table": draw.tensor(7, DIM, dtype=torch.float64), "ids": torch.tensor([0, 1]), "refused": [7, 2]}
           for even in inputs(2, 3, (2,))]
    return [*cases, groups, Case("2 ranks, 7 rows: refused", tuple(odd))]


def _right(case: Case, rank: int) -> dict[str, Any]:
    inputs = case.inputs[rank]
    table = inputs["table"].clone().requires_grad_()
    y = table[inputs["ids"]]
    (y * inputs["weights"]).sum().backward()
    return {"weight": own_piece(case, rank, inputs["table"]), "y": y.detach(), "dweight": own_piece(case, rank, table.grad)}


def _looked_up_everywhere(case: Case, rank: int, right: Tensor) -> Tensor:
    """Every rank adds the row id % P of its own, also for ids of other ranks."""
    inputs, n = case.inputs[rank], case.group_size(rank)
    return sum(rows[inputs["ids"] % len(rows)] for rows in inputs["table"].chunk(n))


def _own_ids_only(case: Case, rank: int, right: Tensor) -> Tensor:
    inputs = case.inputs[rank]
    rows = len(inputs["table"]) // case.group_size(rank)
    return right * (inputs["ids"] // rows == case.group_rank(rank))[..., None]


EXERCISE = Exercise(
    title="(c) An embedding, split by rows",
    parameters=("embedding", "group"),
    make_cases=_cases,
    oracle=or_refused(_right),
    tolerance=TOLERANCE,
    optional=True,
    slips=(
        first_wrong_slip("rows in turn", "A rank's rows must be neighbours, r·V/n to (r+1)·V/n.", "weight",
                         lambda case, r, right: case.inputs[r]["table"][case.group_rank(r)::case.group_size(r)]),
        first_wrong_slip("ids not masked", "Every rank adds a row for every id, also for ids of other ranks: their results "
                                           "must be 0 before the all-reduce.", "y", _looked_up_everywhere),
        first_wrong_slip("y not summed", "y has the own ids' rows only: sum over ranks (g).", "y", _own_ids_only),
        first_wrong_slip("gradient n times", "y is right, the gradient is n times too large: after the all-reduce, backward "
                                             "passes dy on as it is (g).", "dweight",
                         lambda case, r, right: right * case.group_size(r)),
    ),
)
