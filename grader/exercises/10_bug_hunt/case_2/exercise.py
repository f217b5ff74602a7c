"""A mesh: gradients are averaged over copies of a shard."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.hunted import (
    LR,
    UNTOUCHED,
    Combine,
    Inputs,
    Trained,
    hunted,
    of,
    own_share,
    simulated,
    total_of,
)
from grader.judging.exercise import Case, Draw
from utils.models.hunted import MLPShard
from utils.models.hunted_plain import Notes, Tensors, plain_mesh

MESHES = ((2, 2), (2, 1), (1, 2))  # copies, ranks that share one
ROWS = 4


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def case(dp: int, tp: int) -> Case:
        shares = [own_share(draw, ROWS) for _ in range(dp)]
        inputs = tuple({"batches": share, "lr": LR, "tp": tp} for share in shares for _ in range(tp))
        return Case(f"{dp} × {tp} ranks", inputs)

    return [case(*mesh) for mesh in (*MESHES, *(((3, 1),) if grading else ()))]


def _plain(inputs: Inputs) -> list[Notes]:
    return plain_mesh(of(inputs, "batches"), LR, inputs[0]["tp"])


def _teams(rank: int, world: int, tp: int) -> tuple[list[int], list[int]]:
    """The ranks that hold the same shard, and those that share the model."""
    return list(range(rank % tp, world, tp)), list(range(rank // tp * tp, rank // tp * tp + tp))


def _reduced(over: str, by: str) -> Trained:
    """Gradients summed over a rank's "data", "tensor" or "world" team, and divided by the size of another one."""

    def train(inputs: Inputs) -> list[Notes]:
        world, tp = len(inputs), inputs[0]["tp"]

        def combine(gradients: list[Tensors], rank: int) -> Tensors:
            data, tensor = _teams(rank, world, tp)
            team = {"data": data, "tensor": tensor, "world": list(range(world)), "nobody": [rank]}
            return {name: total_of(gradients, name, team[over]) / len(team[by]) for name in gradients[rank]}

        return _on_mesh(inputs, combine)

    return train


def _on_mesh(inputs: Inputs, combine: Combine) -> list[Notes]:
    world, tp, shares = len(inputs), inputs[0]["tp"], of(inputs, "batches")
    models = [MLPShard(rank % tp, tp) for rank in range(world)]

    def losses(step: int) -> tuple[Tensor, list[Tensor]]:
        parts = [model(share[step][0]) for model, share in zip(models, shares, strict=True)]
        own = []
        for rank, part in enumerate(parts):
            total = torch.stack([parts[other].detach() for other in _teams(rank, world, tp)[1]]).sum(0)
            own.append(F.mse_loss(part + (total - part).detach(), shares[rank][step][1]))
        return torch.stack(own).sum(), own

    return simulated(models, len(shares[0]), losses, combine)


EXERCISE = hunted("Case 2: two by two", ("batches", "lr", "tp"), _cases, _plain, {
    UNTOUCHED: ("Gradients are added up over ranks that hold different parts of one model, so two different halves get one "
                "update. Which ranks hold copies of the same shard?", _reduced("tensor", "data")),
    "all with all": ("Gradients are added up over all ranks, and so over different parts of the model: only copies of one "
                     "shard belong together.", _reduced("world", "data")),
    "mean of all": ("Gradients are averaged over all ranks, and so over different parts of the model: only copies of one "
                    "shard belong together.", _reduced("world", "world")),
    "mean of the team": ("Gradients are averaged over the ranks that share a model, which hold different parts of it. Which "
                         "ranks hold copies of the same shard?", _reduced("tensor", "tensor")),
    "divided by the team": ("The right ranks add up, but the sum is divided by the number of ranks that share a model. "
                            "Divide by as many as were added.", _reduced("data", "tensor")),
    "divided by the world": ("The right ranks add up, but the sum is divided by the number of all ranks. Divide by as many "
                             "as were added.", _reduced("data", "world")),
    "copies left alone": ("Copies of a shard are not averaged: each uses its own batch's gradient.",
                          _reduced("nobody", "nobody")),
})
