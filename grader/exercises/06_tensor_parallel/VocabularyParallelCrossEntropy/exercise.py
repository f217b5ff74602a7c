"""VocabularyParallelCrossEntropy (challenge): the loss of logits whose columns are split, and that are never gathered."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import in_dtype_of
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: int, columns: int, dtype: str = "float64", shift: float = 0.0,
               below: float = 0.0) -> tuple[dict[str, Any], ...]:
        kind = getattr(torch, dtype)
        # where they are shifted, every second row lies as far on the other side: rows have nothing in common
        sides = torch.tensor([1.0, -1.0]).repeat(rows)[:rows, None] * shift
        whole = draw.tensor(rows, n * columns, dtype=torch.float64) / 16 + sides  # float32 holds these
        whole[:, 0] -= below  # so the first row's target: its exponential is 0
        targets = torch.arange(rows) * draw.integer(1, 4) * max(1, columns - 1) % (n * columns)
        weights = draw.tensor(rows, dtype=torch.float64) / 20
        return tuple({"logits": part.to(kind).contiguous(), "targets": targets, "weights": weights.to(kind)}
                     for part in whole.chunk(n, 1))

    sizes = [(1, 4, 5, "float64", 0.0), (2, 7, 3, "float64", 896.0), (4, 9, 3, "float64", -896.0), (3, 5, 6, "float32", 0.0),
             (2, 6, 5, "bfloat16", 0.0)]
    if grading:
        sizes.append((4, 3, 1, "float64", 0.0))
    cases = [Case(f"{ranks(n)}, {rows} rows, {columns} columns each, {dtype}{f', shifted by {shift:g}' if shift else ''}",
                  inputs(n, rows, columns, dtype, shift)) for n, rows, columns, dtype, shift in sizes]
    cases.append(Case("2 ranks, a column far below the others, float32", inputs(2, 4, 3, "float32", below=150.0)))
    return [*cases, group_case(lambda n: inputs(n, 5, 4), "4 columns each")]


def _right(case: Case, rank: int) -> dict[str, Any]:
    inputs = case.inputs[rank]
    logits = torch.cat([part.double() for part in case.peers_inputs(rank, "logits")], 1).requires_grad_()
    losses = F.cross_entropy(logits, inputs["targets"], reduction="none")
    losses.backward(inputs["weights"].double())
    right = {"losses": losses.detach(), "dlogits": own_piece(case, rank, logits.grad, 1), "inputs left as they were": True}
    return in_dtype_of(right, inputs["logits"])


EXERCISE = Exercise(
    title="(c) Cross-entropy without gathered logits",
    parameters=("logits_BP", "targets_B", "group"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=TOLERANCE,
)
