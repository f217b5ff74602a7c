"""How a rank calls ShardedOptimizer."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch.distributed as dist

from grader.calling.training import ACCEPTED, NOTHING, OPTIMIZERS, UNEQUAL, Held, accepted, param_groups, parameters
from grader.calling.weighing import END, weigh
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import mark, span

STEP = "step"


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(params, optimizer class, group, lr=…) and some steps on batches of its own → all parameters of the model."""
    model = build(inputs["model"], inputs["seed"])
    optimizer = _made(fn, param_groups(model, inputs), inputs, group)
    if inputs["model"] == "seldom":
        optimizer.step()  # before there is any gradient
    for x, y in zip(inputs["xs"], inputs["ys"], strict=True):
        optimizer.zero_grad()
        loss_rows(model(x), y).mean().backward()
        with span(STEP):
            optimizer.step()
    model.zero_grad()
    weigh(inputs, END)
    if inputs["model"] == "linear":
        _offer(fn, inputs, group)
    return Held({"parameters": parameters(model)}, model, optimizer)


def _made(fn: Callable, params: Iterable, inputs: dict[str, Any], group) -> Any:
    """Without a group where it is the world."""
    of_group = () if group is dist.group.WORLD else (group,)
    return fn(params, OPTIMIZERS[inputs["optimizer"]], *of_group, lr=inputs["lr"], **inputs["options"])


def _offer(fn: Callable, inputs: dict[str, Any], group) -> None:
    """No parameters, and two groups of which the second differs between ranks: a ValueError should answer both."""
    layer = build(inputs["model"], inputs["seed"])
    layer.bias.data += dist.get_rank(group)
    offers = {NOTHING: [], UNEQUAL: param_groups(layer, inputs)}
    mark(ACCEPTED, what=accepted({what: partial(_made, fn, params, inputs, group) for what, params in offers.items()}))
