"""FullyShard: wraps any module; each layer is whole only while it is computed with."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.zoo import build
from grader.exercises.shared.cases import each_group, pieces
from grader.exercises.shared.one_process import TOLERANCE, model_of, train
from grader.exercises.shared.training_cases import SEEDS, model_cases, with_batches
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.layers import layers_of, pieces_of

from .technique import ROWS

STEPS, LR = 2, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Half of the cases accumulate, one computes in float32 (by SGD, which does not blow up rounding), one keeps layers."""

    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        lower = n == 3 and model == "frozen"
        micro = 2 if n in (2, 3) else 1
        make = with_batches(draw, lambda n: ROWS, STEPS * micro, micro=micro, lr=LR, optimizer="SGD" if lower else "AdamW",
                            compute_dtype="float32" if lower else None, wrapping={"reshard_after_forward": n != 4})
        return [{**of_rank, "seed": seed if r == 0 else draw.integer(0, SEEDS)}
                for r, of_rank in enumerate(make(model, n, seed))]

    more = ("buffered", "mixed", "empty") if grading else ()
    return model_cases(draw, grading, ("tied", "deep", "frozen", "unused", "gpt", *more), inputs)


def _plain(case: Case, rank: int) -> dict[str, Any]:
    """The parameters at the start, which are the first rank's, and at the end."""
    start = {name: p.detach() for name, p in model_of(case, rank).named_parameters()}
    return {"start": start, "parameters": train(case, rank)["parameters"]}


def _own_pieces(case: Case, rank: int, seed: int) -> dict[str, Tensor]:
    """Name → what lies on `rank` of the model that is drawn from `seed`."""
    model, own = build(case.inputs[rank]["model"], seed), {}
    names = {p: name for name, p in model.named_parameters()}
    for _, parameters in layers_of(model):
        row = torch.cat([p.detach().flatten() for p in parameters])
        shard = pieces(row, case.group_size(rank))[case.group_rank(rank)]
        parts = pieces_of(shard, [p.shape for p in parameters], first=case.group_rank(rank) * len(shard))
        own |= {names[p]: part for p, part in zip(parameters, parts, strict=True)}
    return own


def _shards(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    first = case.members(rank)[0]
    return {"start": _own_pieces(case, rank, case.inputs[first]["seed"]), "parameters": ANYTHING}


def _of_own_starts(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """What is put together from each member's piece of its own module."""
    own = [_own_pieces(case, member, case.inputs[member]["seed"]) for member in case.members(rank)]
    start = {name: torch.cat([part[name] for part in own]).view_as(p) for name, p in right[rank]["start"].items()}
    return {"start": start, "parameters": ANYTHING}


def _sums(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    return right[rank] | {"parameters": train(case, rank, factor=case.group_size(rank))["parameters"]}


EXERCISE = Exercise(
    title="Shard any module",
    parameters=("module", "compute_dtype", "group"),
    make_cases=_cases,
    oracle=each_group(_plain),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        Slip("shards returned", "full_parameters() returns this rank's pieces: gather every layer first.", _shards),
        Slip("start not shared", "The ranks' modules differed, and each took its piece of its own: broadcast parameters and "
                                 "buffers from the group's rank 0 before you shard.", _of_own_starts),
        Slip("nothing trained", "The parameters at the end are those of the start: after the backward pass every p.grad "
                                "must hold the gradient of p's piece.",
             lambda case, r, right: right[r] | {"parameters": right[r]["start"]}),
        Slip("sum for mean", "The gradients are n times too large: divide by the number of ranks.", _sums),
    ),
)
