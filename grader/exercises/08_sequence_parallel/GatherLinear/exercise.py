"""A linear layer cut by columns on a shard of the sequence: gathered for the product, kept as the shard only."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import divided_by_n, joined, own_piece
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, s: int, b: int, i: int, o: int, dtype: torch.dtype = torch.float64,
               transposed: bool = False) -> tuple[dict[str, Any], ...]:
        return tuple({"transposed": transposed, "x": draw.tensor(s, b, i, dtype=dtype) / 50,
                      "weight": draw.tensor(o, i, dtype=dtype) / 50,
                      "bias": draw.tensor(o, dtype=dtype) / 50, "weights": draw.tensor(n * s, b, o, dtype=dtype) / 50}
                     for _ in range(n))

    sizes = [(1, 3, 2, 5, 4), (2, draw.integer(2, 5), 3, 7, 2), (4, 8, 2, 24, 5)]
    sizes += [(5, 3, 2, 7, 2), (2, 9, 1, 3, 5)] if grading else []
    cases = [Case(f"{ranks(n)}, shards of {s} positions, {b}×{i} → {o}", inputs(n, s, b, i, o)) for n, s, b, i, o in sizes]
    cases.append(Case("3 ranks, shards of 2 positions, not contiguous", inputs(3, 2, 2, 24, 3, transposed=True)))
    weighed = [Case("2 ranks, weighed", tuple(own | {WEIGHED: True} for own in inputs(2, 256, 8, 768, 8)))]
    cases += weighed if grading else []
    return [*cases, Case("2 ranks, float32", inputs(2, 3, 2, 5, 3, torch.float32)),
            group_case(lambda n: inputs(n, 3, 2, 5, 2), "shards of 3 positions")]


def _right(case: Case, rank: int) -> dict[str, Any]:
    """The gradient of all ranks' losses together."""
    x, r = joined(case, rank).requires_grad_(), case.group_rank(rank)
    weights, biases = ([leaf.clone().requires_grad_() for leaf in case.peers_inputs(rank, name)]
                       for name in ("weight", "bias"))
    ys = [F.linear(x, weight, bias) for weight, bias in zip(weights, biases, strict=True)]
    losses = [(y * dy).sum() for y, dy in zip(ys, case.peers_inputs(rank, "weights"), strict=True)]
    torch.stack(losses).sum().backward()
    return {"y": ys[r].detach(), "dx": own_piece(case, rank, x.grad), "dweight": weights[r].grad, "dbias": biases[r].grad}


def _own_dw(case: Case, rank: int, _: Tensor) -> Tensor:
    dy = own_piece(case, rank, case.inputs[rank]["weights"])
    return dy.flatten(0, 1).T @ case.inputs[rank]["x"].flatten(0, 1)


EXERCISE = Exercise(
    title="A linear layer that keeps a shard",
    parameters=("x_PBI", "weight_OI", "bias_O", "group"),
    forbidden=("torch.distributed.tensor", "torch.utils.checkpoint"),
    make_cases=_cases,
    trains=True,
    measured=True,
    oracle=each_rank(_right),
    tolerance=1e-9,
    points={"values": 3, "technique": 3},
    slips=(
        first_wrong_slip("bias forgotten", "The bias is missing: y = x Wᵀ + b.", "y",
                         lambda case, r, y: y - case.inputs[r]["bias"]),
        first_wrong_slip("bias on every rank", "The bias is in y n times: each rank has its own columns here, and adds its "
                         "own bias once.", "y", lambda case, r, y: y + (case.group_size(r) - 1) * case.inputs[r]["bias"]),
        first_wrong_slip("gradient not summed", "dx comes from this rank's columns alone: all ranks' columns have used x, "
                         "so reduce-scatter dy W.", "dx",
                         lambda case, r, dx: own_piece(case, r, case.inputs[r]["weights"] @ case.inputs[r]["weight"])),
        first_wrong_slip("mean for sum", "dx is n times too small: the columns' gradients are summed.", "dx",
                         divided_by_n),
        first_wrong_slip("dW of the piece", "dW comes from this rank's positions alone: its columns have met the whole "
                         "sequence, so gather x again.", "dweight", _own_dw),
        first_wrong_slip("db of the piece", "db comes from this rank's positions alone: its columns' bias was added at "
                         "every position of the sequence.", "dbias", lambda case, r, db: own_piece(
                             case, r, case.inputs[r]["weights"]).sum((0, 1))),
        first_wrong_slip("dW divided", "dW is n times too small: this rank's columns are its own, and nobody shares their "
                         "gradient.", "dweight", divided_by_n),
    ),
)
