"""How a rank calls FlatOptimizer."""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from grader.calling.training import OPTIMIZERS, Held, parameters
from grader.calling.weighing import END, weigh
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import span

STEP = "step"


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(params, optimizer class, group, lr=…) and some steps on batches of its own → all parameters of the model."""
    model = build(inputs["model"], inputs["seed"])
    trained = (p for p in model.parameters() if p.requires_grad)  # to be run through once, as parameters() gives them
    of_group = () if group is dist.group.WORLD else (group,)
    optimizer = fn(trained, OPTIMIZERS[inputs["optimizer"]], *of_group, lr=inputs["lr"], **inputs["options"])
    for x, y in zip(inputs["xs"], inputs["ys"], strict=True):
        model.zero_grad()
        loss_rows(model(x), y).mean().backward()
        with span(STEP):
            optimizer.step()
    model.zero_grad()
    weigh(inputs, END)
    return Held({"parameters": parameters(model)}, model, optimizer)
