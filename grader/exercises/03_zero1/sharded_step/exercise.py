"""ZeRO-1's step: reduce-scatter the gradients, update the own shard, all-gather the parameters."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.training import make_optimizer
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.zero_cases import with_inputs
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

STEPS, LR = 3, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, length: int, optimizer: str) -> list[dict[str, Any]]:
        flat = draw.tensor(n * length, dtype=torch.float64) / 25
        return [{"flat": flat, "optimizer": optimizer, "lr": LR,
                 "gradients": [draw.tensor(n * length, dtype=torch.float64) / 25 for _ in range(STEPS)]} for _ in range(n)]

    sizes = [(1, 4), (2, draw.integer(2, 5)), (3, draw.integer(2, 4)), (4, draw.integer(1, 4))]
    if grading:
        sizes.append((5, 2))
    cases = [Case(f"{ranks(n)}, {length} each, {optimizer}", tuple(inputs(n, length, optimizer)))
             for (n, length), optimizer in zip(sizes, ("AdamW", "AdamW", "SGD", "AdamW", "SGD"), strict=False)]
    cases.append(Case("4 ranks, 3 numbers and a zero, AdamW", tuple(map(_padded, inputs(4, 1, "AdamW")))))
    return [*cases, group_case(lambda n: inputs(n, 2, "AdamW"), "AdamW")]


def _padded(inputs: dict[str, Any]) -> dict[str, Any]:
    """The last number is padding: more ranks than parameters."""
    for flat in (inputs["flat"], *inputs["gradients"]):
        flat[-1] = 0
    return inputs


def _train(case: Case, rank: int) -> Tensor:
    """All parameters after plain steps on the mean gradient."""
    inputs = case.inputs[rank]
    flat = nn.Parameter(inputs["flat"].clone())
    optimizer = make_optimizer(inputs, [flat])
    for gradients in zip(*case.peers_inputs(rank, "gradients"), strict=True):
        flat.grad = torch.stack(gradients).mean(0)
        optimizer.step()
    return flat.detach()


def _part(flat: Tensor, case: Case, rank: int) -> Tensor:
    return flat.chunk(case.group_size(rank))[case.group_rank(rank)].clone()


def _result(case: Case, rank: int) -> dict[str, Tensor]:
    flat = _train(case, rank)
    return {"flat": flat, "shard": _part(flat, case, rank)}


def _shard(flat: Tensor, case: Case, rank: int) -> dict[str, Any]:
    """Its part of `flat` for a shard; whatever was gathered then."""
    return {"flat": ANYTHING, "shard": _part(flat, case, rank)}


def _summed(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """SGD steps n times as far."""
    further = with_inputs(case, lr=LR * case.group_size(rank))
    return _shard(_train(further, rank), case, rank)


def _alone(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """As if the others' gradients were this rank's."""
    return _shard(_train(with_inputs(case, gradients=case.inputs[rank]["gradients"]), rank), case, rank)


EXERCISE = Exercise(
    title="A step of ZeRO-1",
    parameters=("flat_P", "gradient_P", "shard_C", "optimizer", "group"),
    make_cases=_cases,
    oracle=each_rank(_result),
    trains=True,
    tolerance=TOLERANCE,
    slips=(
        Slip("sum for mean", "The shard was updated with the sum of the gradients: divide by the number of ranks.",
             _summed, shows=lambda case: case.inputs[0]["optimizer"] == "SGD"),  # AdamW hardly feels a gradient's scale
        Slip("own gradient", "Each rank updated its shard with its own gradient: the shard's gradient is the mean over "
                             "ranks, which the reduce-scatter brings.", _alone),
        Slip("not updated", "The shard is what it was: put the reduced gradient into shard_C.grad and call "
                            "optimizer.step().", lambda case, r, right: _shard(case.inputs[r]["flat"], case, r)),
    ),
)
