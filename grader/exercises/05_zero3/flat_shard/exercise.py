"""A layer's parameters in one flat buffer, and this rank's shard of it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import TWO_GROUPS, each_rank, ranks
from grader.exercises.shared.split_inputs import numbers
from grader.exercises.shared.zero_cases import own_shard
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(name: str, n: int, *shapes: tuple[int, ...], groups=None) -> Case:
        parameters = [numbers(draw, *shape, divisor=1) for shape in shapes]
        return Case(name, ({"parameters": parameters},) * n, groups)

    cases = [of("1 rank, 2×3", 1, (2, 3))]  # the whole buffer is one parameter: nothing to join, to pad or to cut
    cases += [of(f"{ranks(n)}, {k}×3 and {k}", n, (k, 3), (k,)) for n, k in (
        (2, 2 * draw.integer(1, 3) + 1), (3, 3 * draw.integer(1, 2) + 2), (4, draw.integer(5, 7)))]
    cases.append(of("4 ranks, 3×3", 4, (3, 3)))  # three zeros, all of them on the last rank
    few = of("4 ranks, 3 elements", 4, (2, 1), (1,))
    in_groups = of("groups (1,3,4) and (0,2), 7×2", 5, (7, 2), groups=TWO_GROUPS)
    return [*cases, few, in_groups, *([of("5 ranks, 4×4 and 4 and 2", 5, (4, 4), (4,), (2,))] if grading else [])]


def _row(case: Case, rank: int) -> Tensor:
    return torch.cat([parameter.flatten() for parameter in case.inputs[rank]["parameters"]])


def _result(case: Case, rank: int) -> dict[str, Any]:
    shard = own_shard(case, rank, _row(case, rank))
    return {"shard": shard, "bytes kept alive": shard.nbytes, "has a history": False}


EXERCISE = Exercise(
    title="One flat shard of a layer",
    parameters=("parameters", "group"),
    make_cases=_cases,
    oracle=each_rank(_result),
    trains=True,
    forbidden=("torch.distributed.fsdp", "torch.distributed.tensor", "torch.distributed._shard"),
    points={VALUES: 2},
)
