"""ZeRO-1's step: reduce-scatter the gradients, update this rank's shard, all-gather the parameters."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.training import make_optimizer
from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.split_inputs import numbers
from grader.exercises.shared.zero_cases import own_shard, with_inputs
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

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


def _train(case: Case, rank: int, skipped: bool = False) -> Tensor:
    """All parameters after plain steps on the mean gradient; skipped: a shard stays where all of that is 0."""
    inputs, n = case.inputs[rank], case.group_size(rank)
    shards = [nn.Parameter(shard.clone()) for shard in inputs["flat"].chunk(n)]
    optimizer = make_optimizer(inputs, shards)
    for gradients in zip(*case.peers_inputs(rank, "gradients"), strict=True):
        for shard, gradient in zip(shards, torch.stack(gradients).mean(0).chunk(n), strict=True):
            shard.grad = None if skipped and not gradient.any() else gradient
        optimizer.step()
    return torch.cat(shards).detach()


def _result(case: Case, rank: int) -> dict[str, Tensor]:
    flat = _train(case, rank)
    return {"flat": flat, "shard": own_shard(case, rank, flat)}


def _piled_up(case: Case) -> Case:
    """Each step's gradients are added to those of the steps before."""
    return replace(case, inputs=tuple(
        inputs | {"gradients": list(itertools.accumulate(inputs["gradients"]))} for inputs in case.inputs))


def _updated(id: str, hint: str, flat: Callable[[Case, int], Tensor], **shows: Callable[[Case], bool]) -> Slip:
    """The shard is this rank's part of flat(case, rank); whatever was gathered then."""
    return Slip(id, hint, lambda case, r, right: {"flat": ANYTHING, "shard": own_shard(case, r, flat(case, r))}, **shows)


EXERCISE = Exercise(
    title="A step of ZeRO-1",
    parameters=("flat_Z", "gradient_Z", "shard_C", "optimizer", "group"),
    make_cases=_cases,
    oracle=each_rank(_result),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    slips=(
        _updated("sum for mean", "The shard was updated with the sum of the gradients: divide by the number of ranks.",
                 lambda case, r: _train(with_inputs(case, lr=LR * case.group_size(r)), r),  # a step n times as long
                 shows=lambda case: case.inputs[0]["optimizer"] == "SGD"),
        _updated("divided by the world", "Right for the whole world, wrong in a group: divide by the number of ranks that "
                                         "took part, dist.get_world_size(group).",
                 lambda case, r: _train(with_inputs(case, lr=LR * case.group_size(r) / case.world_size), r),
                 shows=lambda case: case.groups is not None),
        _updated("divided twice", "The shard's gradient is n times too small: the mean is divided by n once, before the "
                                  "reduce-scatter or after it.",
                 lambda case, r: _train(with_inputs(case, lr=LR / case.group_size(r)), r),
                 shows=lambda case: case.inputs[0]["optimizer"] == "SGD"),
        _updated("gradients pile up", "The first step is right, later ones also hold the gradients of the steps before: "
                                      "shard_C.grad is to be replaced, not added to.",
                 lambda case, r: _train(_piled_up(case), r)),
        _updated("optimizer passed by", "The shard was moved against the gradient by hand. It is optimizer.step() that "
                                        "knows how to update, by momentum and variance too: put the mean into shard_C.grad.",
                 lambda case, r: _train(with_inputs(case, optimizer="SGD"), r)),
        _updated("own gradient", "Each rank updated its shard with its own gradient: the shard's gradient is the mean over "
                                 "ranks, which the reduce-scatter brings.",
                 lambda case, r: _train(with_inputs(case, gradients=case.inputs[r]["gradients"]), r)),
        _updated("zeros skipped", "Where the shard's gradient is all zeros, no step is made: momentum and weight decay move "
                                  "the parameters all the same, so call optimizer.step() whatever the gradient.",
                 lambda case, r: _train(case, r, skipped=True)),
        _updated("not updated", "The shard is what it was: put the reduced gradient into shard_C.grad and call "
                                "optimizer.step().", lambda case, r: case.inputs[r]["flat"]),
    ),
)
