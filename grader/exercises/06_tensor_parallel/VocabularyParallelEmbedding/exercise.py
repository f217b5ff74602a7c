"""VocabularyParallelEmbedding (challenge): the rows of an embedding split over the ranks, one all-reduce to look up."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import or_refused
from grader.judging.exercise import Case, Draw, Exercise

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
    table = inputs["table"].clone().requires_grad_()
    y = table[inputs["ids"]]
    y.backward(inputs["weights"])
    return {"weight": own_piece(case, rank, inputs["table"]), "y": y.detach(), "dweight": own_piece(case, rank, table.grad)}


EXERCISE = Exercise(
    title="(c) An embedding, split by rows",
    parameters=("embedding", "group"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=or_refused(_right),
    measured=True,
    tolerance=1e-6,
)
