"""How a rank calls MeshPasses."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.going_through import gone_through
from grader.calling.meshes import PASS, as_number, gradients_of, groups_of, make_model, parts_on
from grader.calling.numberless import NumbersWatched
from grader.evidence.case import Case
from utils.models.mesh_stage import MeshStage
from utils.trace.spans import mark


def hand_out(case: Case) -> list[dict[str, Any]]:
    """Each rank gets its pieces of its stage's weights. All have the whole batch: so the contract says."""
    inputs = case.inputs[0]
    whole = {name: p.detach() for name, p in make_model(inputs["model"]).named_parameters()}
    model = {name: size for name, size in inputs["model"].items() if name != "seed"}
    return [inputs | {"model": model, "weights": parts_on(rank, whole, inputs["lines"], model["layers"])}
            for rank in range(case.world_size)]


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """cls(stage, n_micro, mesh).run(tokens, targets) → the loss, and the gradients that it leaves.

    Each pass of the stage leaves marks: what went through, and once it did how many rows that were.
    """
    mesh = groups_of(inputs["lines"])
    stage = MeshStage(make_model(inputs["model"]), mesh["pp"], mesh["tp"])
    with torch.no_grad():
        for name, p in stage.named_parameters():
            p.copy_(inputs["weights"][name])
    stage.forward = _noted(stage.forward)
    passes = cls(stage, inputs["n_micro"], mesh)
    with NumbersWatched():
        loss = passes.run(inputs["tokens"], inputs["targets"])
    return {"loss": as_number(loss), "gradients": gradients_of(stage)}


def _noted(forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """However it is called: of hooks, stage.forward(x) knows nothing."""
    numbers = itertools.count()

    def noted(x: Tensor) -> Tensor:
        y = gone_through(forward, x, next(numbers))
        mark(PASS, rows=len(y))
        return y

    return noted
