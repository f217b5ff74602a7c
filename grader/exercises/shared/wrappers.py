"""Results of wrappers that shard any module: of one process, and of those that start from something else."""

from typing import Any

import torch
from torch import Tensor

from grader.calling.training import parameters
from grader.exercises.shared.one_process import train
from grader.exercises.shared.zero_cases import slices_on
from grader.exercises.technique.models import given_model, model_of
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case
from utils.models.layers import layers_of


def plain(case: Case, rank: int) -> dict[str, Any]:
    """Parameters and buffers at the start, which are the first rank's, and the parameters at the end."""
    model = model_of(case, rank)
    trained = train(case, rank)["parameters"]
    return {"start": parameters(model), "digits kept": True, "buffers": dict(model.named_buffers()), "parameters": trained}


def own_slices(case: Case, rank: int, owner: int) -> dict[str, Tensor]:
    """Name → what lies on `rank` of the model that `owner` is given."""
    model, own = given_model(case, owner), {}
    names = {p: name for name, p in model.named_parameters()}
    for _, of_layer in layers_of(model):
        parts = slices_on(case, rank, [p.detach() for p in of_layer])
        own |= {names[p]: part for p, part in zip(of_layer, parts, strict=True)}
    return own


def of_own_starts(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """What is put together from each member's piece of its own module."""
    own = [own_slices(case, member, member) for member in case.members(rank)]
    start = {name: torch.cat([part[name] for part in own]).view_as(p) for name, p in right[rank]["start"].items()}
    return {"start": start, "digits kept": ANYTHING, "buffers": ANYTHING, "parameters": ANYTHING}
