"""Inside a rank: what exercises about schedules share: schedules and faults as data, layers that tell of their gradients."""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.going_through import numbers_of
from utils.schedules.schedule import Schedule, Step
from utils.trace.spans import mark

DONE, ALIVE, CHAINED = "done", "micro-batches alive", "gradient of a layer's input"
LEFT = "messages left"
ONCE = "which can be run through only once"


def call_generator(fn: Callable, inputs: dict[str, Any], group) -> Any:
    """fn(*inputs) → its schedule, or what it said when it refused."""
    try:
        schedule = fn(*inputs.values())
    except ValueError as error:
        return {"ValueError": str(error)}
    for part in chain([schedule], schedule):
        if iter(part) is part:
            raise TypeError(f"expected a list of lists of steps, found a {type(part).__name__}, {ONCE}")
    schedule = [list(steps) for steps in schedule]
    for step in (step for steps in schedule for step in steps):
        if type(step) is tuple:  # equal to a Step, but without the names that the cells below ask for
            raise TypeError(f"expected Step(kind, micro, stage), found the tuple {step}")
    return schedule


def as_schedule(rows: Iterable[Iterable[tuple]]) -> Schedule:
    """A schedule that came from another process as plain tuples."""
    return [[Step(*step) for step in row] for row in rows]


class Affine(nn.Module):
    """x W + b; W's gradient is told, with the facts of the forward pass it belongs to."""

    facts: dict[str, Any]

    def __init__(self, weight_DD: Tensor, bias_D: Tensor):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight_DD.clone()), nn.Parameter(bias_D.clone())

    def forward(self, x_BD: Tensor) -> Tensor:
        return x_BD @ Tell.apply(self.weight, {"kind": "W", **self.facts}, None) + self.bias


class Tell(torch.autograd.Function):
    """x as it is; backward leaves a mark, with the gradient's numbers, when that comes by."""

    @staticmethod
    def forward(ctx, x: Tensor, facts: dict[str, Any], life: Any) -> Tensor:
        ctx.facts, ctx.life = facts, life
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        mark(DONE, rows=numbers_of(gradient), **ctx.facts)
        return gradient, None, None
