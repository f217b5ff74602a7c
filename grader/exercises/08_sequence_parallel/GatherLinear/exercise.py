"""A linear layer cut by columns on a shard of the sequence: gathered for the product, kept as the shard only."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import joined, own_piece
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
)
