"""How a rank calls reduce_gradients."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from grader.calling.meshes import EMBEDDING, HEAD, drawn_gradients, gradients_of, groups_of, make_model, parts_on
from grader.evidence.case import Case
from utils.models.mesh_stage import MeshStage


def hand_out(case: Case) -> list[dict[str, Any]]:
    """Each rank gets its pieces of its replica's gradients."""
    handed = []
    for rank, inputs in enumerate(case.inputs):
        replica = next(line.index(rank) for line in inputs["lines"]["dp"] if rank in line)
        gradients = parts_on(rank, of_replica(inputs, replica), inputs["lines"], inputs["model"]["layers"])
        handed.append({"model": inputs["model"], "lines": inputs["lines"], "gradients": gradients})
    return handed


def of_replica(inputs: dict[str, Any], replica: int) -> dict[str, Tensor]:
    """What the passes of one replica leave: with several stages, embedding and head each have their own part."""
    model, (seed, of_head) = make_model(inputs["model"]), inputs["seeds"][replica]
    head = {HEAD: drawn_gradients(model, of_head)[EMBEDDING]} if inputs["sizes"]["pp"] > 1 else {}
    return drawn_gradients(model, seed) | head


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(stage, mesh), of a stage that has these gradients → the gradients afterwards."""
    mesh = groups_of(inputs["lines"])
    stage = MeshStage(make_model(inputs["model"]), mesh["pp"], mesh["tp"])
    for name, p in stage.named_parameters():
        p.grad = inputs["gradients"][name].clone()
    fn(stage, mesh)
    return gradients_of(stage)
