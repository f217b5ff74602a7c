"""How a rank calls mesh_gradient_norm."""

from collections.abc import Callable
from typing import Any

from grader.calling.meshes import as_number, drawn_gradients, groups_of, make_model, parts_on
from grader.evidence.case import Case
from utils.models.mesh_stage import MeshStage


def hand_out(case: Case) -> list[dict[str, Any]]:
    """Each rank gets its pieces of the gradients."""
    inputs = case.inputs[0]
    whole = drawn_gradients(make_model(inputs["model"]), inputs["seed"])
    own = [parts_on(rank, whole, inputs["lines"], inputs["model"]["layers"]) for rank in range(case.world_size)]
    return [{"model": inputs["model"], "lines": inputs["lines"], "gradients": gradients} for gradients in own]


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(stage, mesh), of a stage that has these gradients → the norm, and the gradients afterwards."""
    mesh = groups_of(inputs["lines"])
    stage = MeshStage(make_model(inputs["model"]), mesh["pp"], mesh["tp"])
    for name, p in stage.named_parameters():
        p.grad = inputs["gradients"][name].clone()
    return {"norm": as_number(fn(stage, mesh)), "gradients": {name: p.grad for name, p in stage.named_parameters()}}
