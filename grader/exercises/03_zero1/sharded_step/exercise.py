"""ZeRO-1's step: reduce-scatter the gradients, update this rank's shard, all-gather the parameters."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.training import make_optimizer
from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.split_inputs import numbers
from grader.exercises.shared.zero_cases import own_shard
from grader.judging.exercise import Case, Draw, Exercise

STEPS, LR = 3, 0.05
MANY = 1 << 20  # numbers of a shard that shows from outside


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, length: int, optimizer: str) -> list[dict[str, Any]]:
        flat = numbers(draw, n * length, divisor=25)
        return [{"flat": flat, "optimizer": optimizer, "lr": LR,
                 "gradients": [numbers(draw, n * length, divisor=25) for _ in range(STEPS)]} for _ in range(n)]

    sizes = [(1, 4, "AdamW"), (2, draw.integer(2, 5), "AdamW"), (3, draw.integer(2, 4), "SGD"),
             (4, draw.integer(1, 4), "AdamW"), *([(5, 2, "SGD")] if grading else [])]
    cases = [Case(f"{ranks(n)}, {length} each, {optimizer}", tuple(inputs(n, length, optimizer)))
             for n, length, optimizer in sizes]
    cases.append(Case("4 ranks, 3 elements and a zero, AdamW", tuple(map(_padded, inputs(4, 1, "AdamW")))))
    weighed = [Case("2 ranks, weighed", tuple(own | {WEIGHED: True, "options": {"amsgrad": True}}
                                              for own in inputs(2, MANY, "AdamW")))] if grading else []
    return [*cases, group_case(lambda n: inputs(n, 2, "SGD"), "SGD"), *weighed]  # AdamW hardly feels a gradient's scale


def _padded(inputs: dict[str, Any]) -> dict[str, Any]:
    """The last number is padding: more ranks than parameters. The first one's last gradient is 0, and yet it moves."""
    inputs["gradients"][-1][0] = 0
    for flat in (inputs["flat"], *inputs["gradients"]):
        flat[-1] = 0
    return inputs


def _train(case: Case, rank: int) -> Tensor:
    """All parameters after plain steps on the mean gradient."""
    inputs, n = case.inputs[rank], case.group_size(rank)
    shards = [nn.Parameter(shard.clone()) for shard in inputs["flat"].chunk(n)]
    optimizer = make_optimizer(inputs, shards)
    for gradients in zip(*case.peers_inputs(rank, "gradients"), strict=True):
        for shard, gradient in zip(shards, torch.stack(gradients).mean(0).chunk(n), strict=True):
            shard.grad = gradient
        optimizer.step()
    return torch.cat(shards).detach()


def _result(case: Case, rank: int) -> dict[str, Tensor]:
    flat = _train(case, rank)
    return {"flat": flat, "shard": own_shard(case, rank, flat)}


EXERCISE = Exercise(
    title="A step of ZeRO-1",
    parameters=("flat_Z", "gradient_Z", "shard_C", "optimizer", "group"),
    make_cases=_cases,
    oracle=each_rank(_result),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
)
