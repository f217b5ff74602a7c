"""What one plain process computes: the oracle of every exercise that trains a model."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.training import gradients, leave_gradients, make_optimizer, parameters
from grader.calling.zoo import IN, LENGTH, OUT, loss_rows
from grader.exercises.shared.cases import once_a_group
from grader.exercises.technique.models import given_model, model_of
from grader.judging.exercise import Case, Draw

TOLERANCE = 1e-6  # sums in another order, some of them in float32
OF_A_MEAN = 1e-9  # of gradients that only their mean is taken of
# torch's own data parallelism, and what of it averages or broadcasts by itself
REPLICAS = ("torch.nn.parallel.distributed", "torch.distributed.Reducer", "torch.distributed.utils",
            "torch.distributed.algorithms.model_averaging", "torch.distributed.algorithms.ddp_comm_hooks")


def batch(draw: Draw, model: str, rows: int) -> tuple[Tensor, Tensor]:
    """(x, y) for a model of grader.calling.zoo."""
    if model == "gpt":
        return (draw.tensor(rows, LENGTH, dtype=torch.int64).abs(), draw.tensor(rows, LENGTH, dtype=torch.int64).abs())
    return draw.tensor(rows, IN, dtype=torch.float64) / 25, draw.tensor(rows, OUT, dtype=torch.float64) / 25


def own_gradients(case: Case, rank: int, x: Tensor, y: Tensor, left: float | None = None) -> dict[str, Any]:
    """What a rank has of these rows alone, with the numbers that it drew for itself; left: see leave_gradients."""
    model = given_model(case, rank)
    leave_gradients(model, left)
    loss_rows(model(x), y).mean().backward()
    return gradients(model)


def mean_gradients(case: Case, rank: int, x_and_y: Sequence[tuple[Tensor, Tensor]],
                   left: float | None = None) -> dict[str, Any]:
    """The mean over the members of the gradient of each one's (x, y); None where nobody has one."""
    of_members = [own_gradients(case, member, x, y, left)
                  for member, (x, y) in zip(case.members(rank), x_and_y, strict=True)]
    return {name: None if gradient is None else torch.stack([own[name] for own in of_members]).mean(0)
            for name, gradient in of_members[0].items()}


@once_a_group
def train(case: Case, rank: int) -> dict[str, Any]:
    """One process with the whole batch: losses, the gradients of the first step, the parameters at the end.

    inputs["gamma"], if there: what the learning rate is multiplied by after each step; inputs["left"]: what gradients are
    left from before; inputs["kept"]: the steps, from 1 on, after which gradients stay; inputs["twice"]: those that
    are made twice.
    """
    inputs, model = case.inputs[rank], model_of(case, rank)
    leave_gradients(model, inputs.get("left"))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = make_optimizer(inputs, trained) if trained else None
    losses, first, micro = [], {}, inputs.get("micro", 1)
    for number in range(len(inputs["xs"])):
        x, y = (torch.cat([of_rank[number] for of_rank in case.peers_inputs(rank, name)]) for name in ("xs", "ys"))
        loss = loss_rows(model(x), y).mean() / micro
        if loss.requires_grad:
            loss.backward()
        losses.append(loss.detach())
        if (number + 1) % micro == 0:
            first = first or gradients(model)
            step = (number + 1) // micro
            if optimizer:
                for _ in range(1 + (step in inputs.get("twice", ()))):
                    optimizer.step()
                if step not in inputs.get("kept", ()):
                    optimizer.zero_grad()
                for group in optimizer.param_groups:
                    group["lr"] *= inputs.get("gamma", 1.0)
    return {"losses": losses, "gradients": first, "parameters": parameters(model)}
