"""How a rank calls mesh_gradient_norm."""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from grader.calling.meshes import as_number, drawn_gradients, groups_of, make_model, own_part
from utils.models.mesh_stage import MeshStage


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(stage, mesh), of a stage whose gradients are pieces of given ones → the norm, and the gradients afterwards."""
    mesh = groups_of(inputs["lines"])
    model = make_model(inputs["model"])
    whole = drawn_gradients(model, inputs.pop("seed"))
    stage = MeshStage(model, mesh["pp"], mesh["tp"])
    place, n = dist.get_rank(mesh["tp"]), dist.get_world_size(mesh["tp"])
    for name, p in stage.named_parameters():
        p.grad = own_part(name, whole.get(name, whole["embedding.weight"]), place, n).clone()
    del whole  # nor is its seed left: each rank knows its pieces only
    return {"norm": as_number(fn(stage, mesh)), "gradients": {name: p.grad for name, p in stage.named_parameters()}}
