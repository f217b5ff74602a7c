"""The lecture's split linear layer: every rank computes some outputs, an all-gather makes them whole, and back again."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import in_dtype_of, in_float64, numbers
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise
from utils.models.shards import piece


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, rows: int, n_in: int, each: int, dtype: str = "float64") -> tuple[dict[str, Any], ...]:
        x, w, c = (numbers(draw, *shape, dtype=dtype) for shape in ((rows, n_in), (n * each, n_in), (rows, n * each)))
        return tuple({"x": x, "w": piece(w, r, n), "c": c} for r in range(n))

    sizes = [(1, 2, 3, 4, "float64"), (2, 3, 7, draw.integer(2, 5), "float64"), (3, 2, 5, 3, "float32"),
             (4, 3, 9, 2, "float64"), (2, 2, 6, 3, "bfloat16")]
    if grading:
        sizes.append((5, 2, 7, 1, "float64"))
    cases = [Case(f"{ranks(n)}, W {n * each}×{n_in}, {dtype}", inputs(n, rows, n_in, each, dtype))
             for n, rows, n_in, each, dtype in sizes]
    return [*cases, group_case(lambda n: inputs(n, 2, 5, 2), "W with 5 columns")]


def _right(case: Case, rank: int) -> dict[str, Tensor]:
    inputs, weights = in_float64(case.inputs[rank]), in_float64(case.peers_inputs(rank, "w"))
    y = torch.cat([inputs["x"] @ w.T for w in weights], -1)
    dy = inputs["c"] * (1 - torch.tanh(y) ** 2)
    own_dy = own_piece(case, rank, dy, -1)
    return in_dtype_of({"y": y, "dx": dy @ torch.cat(weights), "dW": own_dy.T @ inputs["x"]}, case.inputs[rank]["x"])


EXERCISE = Exercise(
    title="Gather the outputs",
    parameters=("x_BI", "w_PI", "group"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
)
