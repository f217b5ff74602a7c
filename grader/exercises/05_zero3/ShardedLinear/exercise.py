"""Gather, compute, free: a linear layer as an autograd function whose weight is in shards."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import counted, each_rank, group_case, pieces, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.split_inputs import numbers
from grader.exercises.shared.zero_cases import own_shard
from grader.judging.exercise import Case, Draw, Exercise

ROWS = 2  # of each rank's batch


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, *widths: int) -> list[dict[str, Any]]:
        shards = [pieces(numbers(draw, n_out * n_in), n) for n_in, n_out in pairwise(widths)]
        return [{"x": numbers(draw, ROWS, widths[0]), "shards": [of_layer[r].clone() for of_layer in shards],
                 "n_outs": list(widths[1:]), "weights": numbers(draw, ROWS, widths[-1])} for r in range(n)]

    odd = draw.integer(1, 3) * 2 + 1
    sizes = [(1, 3, 3, 3), (2, odd, odd, odd), (3, 4, 2, 4), (4, *[16] * 7), (4, 5, 1), *([(5, 3, 3, 3)] if grading else [])]
    cases = [Case(f"{ranks(n)}, {_layers(widths)}", tuple(inputs(n, *widths))) for n, *widths in sizes]
    weighed = [Case("4 ranks, weighed", tuple(own | {WEIGHED: True} for own in inputs(4, *[700] * 7)))] if grading else []
    return [*cases, group_case(lambda n: inputs(n, 3, 3, 3), "2 layers 3×3"), *weighed]


def _layers(widths: Sequence[int]) -> str:
    shapes = Counter(f"{n_out}×{n_in}" for n_in, n_out in pairwise(widths))
    return ", ".join(f"{counted(count, 'layer')} {shape}" for shape, count in shapes.items())


def _passes(case: Case, rank: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """y, dx and each layer's dW, flat, of this rank's rows."""
    inputs = case.inputs[rank]
    widths = pairwise([inputs["x"].shape[1], *inputs["n_outs"]])
    rows = [torch.cat(of_layer) for of_layer in zip(*case.peers_inputs(rank, "shards"), strict=True)]
    weights = [row[:n_out * n_in].view(n_out, n_in).requires_grad_()
               for row, (n_in, n_out) in zip(rows, widths, strict=True)]
    x = y = inputs["x"].clone().requires_grad_()
    for weight in weights:
        y = torch.tanh(y @ weight.T)
    (y * inputs["weights"]).sum().backward()
    return y.detach(), x.grad, [weight.grad.flatten() for weight in weights]


def _plain(case: Case, rank: int) -> dict[str, Any]:
    """This rank's y and dx; its pieces of the mean gradients."""
    y, dx, _ = _passes(case, rank)
    of_members = [_passes(case, member)[2] for member in case.members(rank)]
    means = [sum(of_layer) / case.group_size(rank) for of_layer in zip(*of_members, strict=True)]
    return {"y": y, "dx": dx, "dshards": [own_shard(case, rank, mean) for mean in means], "dy as it was": True}


EXERCISE = Exercise(
    title="A linear layer in shards",
    parameters=("x_BI", "shard_C", "n_out", "group"),
    forbidden=("torch.distributed.tensor", "torch.utils.checkpoint"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
)
