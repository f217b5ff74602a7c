"""FullyShard: wraps any module; each layer is whole only while it is computed with."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.training import parameters
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, train
from grader.exercises.shared.training_cases import SEEDS, model_cases, weighed_case, with_batches
from grader.exercises.shared.zero_cases import own_pieces
from grader.exercises.technique.models import given_model, model_of
from grader.exercises.technique.sharding import ROWS
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.layers import layers_of

STEPS, LR = 2, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Half of the cases accumulate, one computes in float32 (by SGD, which does not blow up rounding), one keeps layers; in
    one a pass without gradients, which skips a layer, comes before the first update.
    """

    def glance(model: str, x: Tensor) -> dict[str, Tensor]:
        """Rows for which a layer of "seldom" rests."""
        return {"glance": torch.cat([torch.zeros_like(x[:1]), x[1:]])} if model == "seldom" else {}

    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        lower = model == "odd"
        micro = 2 if n in (2, 3) else 1
        make = with_batches(draw, lambda n: ROWS, STEPS * micro, micro=micro, lr=LR, optimizer="SGD" if lower else "AdamW",
                            compute_dtype="float32" if lower else None, wrapping={"reshard_after_forward": model != "gpt"})
        return [{**of_rank, **glance(model, of_rank["xs"][0]), "seed": seed if r == 0 else draw.integer(0, SEEDS)}
                for r, of_rank in enumerate(make(model, n, seed))]

    more = ("frozen", "mixed", "empty") if grading else ()
    weighed = weighed_case(inputs, grading, "wider", optimizer="SGD", micro=1)  # no gradients stand between passes
    return [*model_cases(draw, grading, ("tied", "turned", "odd", "seldom", "gpt", *more), inputs), *weighed]


def _plain(case: Case, rank: int) -> dict[str, Any]:
    """Parameters and buffers at the start, which are the first rank's, and the parameters at the end."""
    model = model_of(case, rank)
    trained = train(case, rank)["parameters"]
    return {"start": parameters(model), "digits kept": True, "buffers": dict(model.named_buffers()), "parameters": trained}


def _own_pieces(case: Case, rank: int, owner: int) -> dict[str, Tensor]:
    """Name → what lies on `rank` of the model that `owner` is given."""
    model, own = given_model(case, owner), {}
    names = {p: name for name, p in model.named_parameters()}
    for _, of_layer in layers_of(model):
        parts = own_pieces(case, rank, [p.detach() for p in of_layer])
        own |= {names[p]: part for p, part in zip(of_layer, parts, strict=True)}
    return own


def _of_own_starts(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """What is put together from each member's piece of its own module."""
    own = [_own_pieces(case, member, member) for member in case.members(rank)]
    start = {name: torch.cat([part[name] for part in own]).view_as(p) for name, p in right[rank]["start"].items()}
    return {"start": start, "digits kept": ANYTHING, "buffers": ANYTHING, "parameters": ANYTHING}


EXERCISE = Exercise(
    title="Shard any module",
    parameters=("module", "compute_dtype", "group"),
    make_cases=_cases,
    oracle=each_group(_plain),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.fsdp",),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        Slip("shards returned", "full_parameters() returns this rank's pieces: gather every layer first.",
             lambda case, r, right: {"start": _own_pieces(case, r, case.members(r)[0]), "digits kept": ANYTHING,
                                      "buffers": ANYTHING, "parameters": ANYTHING}),
        Slip("start not shared", "The ranks' modules differed, and each took its piece of its own: broadcast parameters and "
                                 "buffers from the group's rank 0 before you shard.", _of_own_starts),
        Slip("precision lost", "full_parameters() has lost digits: for a checkpoint the shards are gathered as they are, "
                               "in their own dtype, and never by way of compute_dtype.",
             lambda case, r, right: right[r] | {"digits kept": case.inputs[r]["compute_dtype"] is None}),
        Slip("nothing trained", "The parameters at the end are those of the start: after the backward pass every p.grad "
                                "must hold the gradient of p's piece.",
             lambda case, r, right: right[r] | {"parameters": right[r]["start"]}),
        Slip("sum for mean", "The gradients are n times too large: divide by the number of ranks.",
             lambda case, r, right: right[r] | {"parameters": train(case, r, factor=case.group_size(r))["parameters"]}),
    ),
)
