"""How a rank calls FlatOptimizer."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from grader.calling.training import OPTIMIZERS, Held, options_of, parameters
from grader.calling.weighing import END, weigh
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import mark, span

STEP, MADE, IN_16_BITS, MADE_IN_16_BITS = "step", "inner optimizer made", "a step in bfloat16", "made in bfloat16"
WITHOUT = "a step without gradients"


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(params, optimizer class, group, lr=…) and some steps on batches of its own → all parameters of the model.

    Marks what the inner optimizer is made of.
    """
    model = build(inputs["model"], inputs["seed"])
    trained = (p for p in model.parameters() if p.requires_grad)  # to be run through once, as parameters() gives them
    of_group = () if group is dist.group.WORLD else (group,)
    optimizer = fn(trained, _marking(OPTIMIZERS[inputs["optimizer"]]), *of_group, **options_of(inputs))
    for x, y in zip(inputs["xs"], inputs["ys"], strict=True):
        model.zero_grad()
        loss_rows(model(x), y).mean().backward()
        with span(STEP):
            optimizer.step()
    model.zero_grad()
    weigh(inputs, END)
    if dist.get_world_size(group) == 1:
        _step_in_16_bits(fn, group)
    return Held({"parameters": parameters(model)}, model, optimizer)


def _step_in_16_bits(fn: Callable, group) -> None:
    """Of one rank, where no bytes are counted: its calls show the row's type, the inner optimizer that of the piece.

    Then one in which no parameter has a gradient, and weight decay alone moves them.
    """
    layer = build("linear", 0).bfloat16()
    optimizer = fn(layer.parameters(), _marking(torch.optim.SGD, MADE_IN_16_BITS), group, lr=0.5, weight_decay=0.5)
    for p in layer.parameters():
        p.grad = torch.ones_like(p)
    with span(IN_16_BITS):
        optimizer.step()
    layer.zero_grad()
    before = layer.bias.clone()
    with span(IN_16_BITS):
        optimizer.step()
    mark(WITHOUT, moved=bool((layer.bias != before).any()))


def _marking(cls: type[torch.optim.Optimizer], name: str = MADE) -> type[torch.optim.Optimizer]:
    """The same class; its objects mark how many numbers each of their parameters has, of which type, and which options."""

    class Marking(cls):
        @functools.wraps(cls.__init__)
        def __init__(self, *params, **options):
            super().__init__(*params, **options)
            made = [p for group in self.param_groups for p in group["params"]]
            mark(name, numbers=[p.numel() for p in made], dtypes=[str(p.dtype) for p in made], options=list(options))

    return Marking
