"""Inside a rank: the ways in which an exercise about schedules is called, and stages that tell what is done to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from utils.models.stages import with_layers
from utils.schedules.schedule import Shape, Step
from utils.trace.spans import mark

DONE, ALIVE, CHAINED = "done", "micro-batches alive", "gradient of a layer's input"


def call_generator(fn: Callable, inputs: dict[str, Any], group) -> Any:
    """fn(*inputs) → its schedule, or what it said when it refused."""
    try:
        return [list(steps) for steps in fn(*inputs.values())]
    except ValueError as error:
        return {"ValueError": str(error)}


def call_dependencies(fn: Callable, inputs: dict[str, Any], group) -> dict[tuple, list]:
    """fn(step, n_stages) for each of the steps."""
    return {tuple(step): [tuple(need) for need in fn(Step(*step), inputs["n_stages"])] for step in inputs["steps"]}


def call_rank_fault(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(steps, rank, shape) for each named list of steps → its fault or None."""
    return {name: _plain(fn([Step(*step) for step in steps], inputs["rank"], Shape(*inputs["shape"])))
            for name, steps in inputs["lists"].items()}


def call_validate(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(schedule, shape, limits) for each named schedule → its fault or None."""
    return {name: _plain(fn(_schedule(rows), Shape(*shape), limits))
            for name, (rows, shape, limits) in inputs["schedules"].items()}


def call_simulate(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(schedule, durations, hop_time) → its four parts."""
    times, makespan, bubble_rate, peaks = fn(_schedule(inputs["schedule"]), dict(inputs["durations"]), inputs["hop_time"])
    return {"times": {tuple(step): tuple(map(float, both)) for step, both in times.items()},
            "makespan": float(makespan), "bubble rate": float(bubble_rate), "peaks": list(peaks)}


def call_halves(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """dx, weights = fn(x, y, dy, layers) twice on a stage of Probes; dx and gradients in between and in the end."""
    stage = nn.Sequential(*(_layer(weight, bias, number) for number, (weight, bias) in enumerate(inputs["weights"])))
    for name in inputs["frozen"]:
        stage.get_parameter(name).requires_grad_(False)
    found: dict[str, Any] = {"dx": [], "early": [], "gradients": []}
    later = []
    for x_BD, dy_BD in zip(inputs["xs"], inputs["dys"], strict=True):
        x = x_BD.clone().requires_grad_(inputs["x_needs_gradient"])
        y, layers = with_layers(stage, x)
        mark(DONE, kind="begin", micro=len(later))
        dx, weights = fn(x, y.sum() if dy_BD is None else y, dy_BD, layers)
        found["dx"].append(dx)
        found["early"] += [name for name, p in stage.named_parameters() if p.grad is not None and not later]
        mark(DONE, kind="later", micro=len(later))
        later.append(weights)
    for weights in later:
        weights()
        found["gradients"].append({name: None if p.grad is None else p.grad.clone() for name, p in stage.named_parameters()})
    return found


def call_pipeline(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """cls(stages, schedule, shape, loss_fn, like, group), then steps → losses, and the gradients of this rank's stages.

    x carries the number of the micro-batch in its last column, which stages pass on unchanged.
    """
    shape, rank = Shape(*inputs["shape"]), dist.get_rank(group)
    alive: dict[int, int] = {}
    stages = {s: PipelineStage(*inputs["weights"][s], s, alive) for s in range(rank, shape.n_stages, shape.n_ranks)}
    like = torch.empty_like(inputs["xs"][0][0])
    try:
        pipeline = cls(stages, _schedule(inputs["schedule"]), shape, squared_error, like, group)
    except ValueError as error:
        return {"ValueError": str(error)}
    losses = [[loss.detach() for loss in pipeline.step([x.clone() for x in xs], list(ys))]
              for xs, ys in zip(inputs["xs"], inputs["ys"], strict=True)]
    gradients = {f"{s}.{name}": p.grad for s, stage in stages.items() for name, p in stage.named_parameters()}
    return {"losses": losses, "gradients": gradients}


def squared_error(output_BD: Tensor, y_BD: Tensor) -> Tensor:
    """Mean over rows and columns, the last column apart."""
    return ((output_BD[:, :-1] - y_BD) ** 2).mean()


class PipelineStage(nn.Module):
    """x (B, D+1) → tanh(x W + b) in the first D columns, the last as it was; marks each F, I and W with its micro-batch."""

    def __init__(self, weight_DD: Tensor, bias_D: Tensor, stage: int, alive: dict[int, int]):
        super().__init__()
        self.inner = _Affine(weight_DD, bias_D)
        self.inner.facts = {"stage": stage}
        self.stage, self.alive = stage, alive

    def forward(self, x_BE: Tensor) -> Tensor:
        micro = int(x_BE[0, -1].item())
        facts = {"micro": micro, "stage": self.stage}
        mark(DONE, kind="F", **facts)
        passed = _Tell.apply(x_BE, {"kind": "I", **facts}, _Life(self.alive))
        self.inner.facts = facts
        y_BD = torch.tanh(self.inner(passed[:, :-1]))
        mark(ALIVE, count=len(self.alive), micro=micro)
        return torch.cat([y_BD, x_BE[:, -1:].detach()], 1)


class _Affine(nn.Module):
    """x W + b; W's gradient is told, with the facts of the forward pass it belongs to."""

    facts: dict[str, Any]

    def __init__(self, weight_DD: Tensor, bias_D: Tensor):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight_DD.clone()), nn.Parameter(bias_D.clone())

    def forward(self, x_BD: Tensor) -> Tensor:
        return x_BD @ _Tell.apply(self.weight, {"kind": "W", **self.facts}, None) + self.bias


class _Life:
    """Stands in a set of the living for as long as anybody holds it: a graph does, from forward until it is let go."""

    def __init__(self, alive: dict[int, int]):
        self.alive = alive
        alive[id(self)] = 1

    def __del__(self):
        self.alive.pop(id(self), None)


class _Tell(torch.autograd.Function):
    """x as it is; backward leaves a mark when its gradient comes by."""

    @staticmethod
    def forward(ctx, x: Tensor, facts: dict[str, Any], life: Any) -> Tensor:
        ctx.facts, ctx.life = facts, life
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        mark(DONE, **ctx.facts)
        return gradient, None, None


class _Chained(nn.Module):
    """tanh of a linear layer whose input gradient and weight gradient are told, by the layer's number."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number

    def forward(self, x_BD: Tensor) -> Tensor:
        return torch.tanh(_Tell.apply(x_BD, {"kind": CHAINED, "micro": self.number}, None))


def _layer(weight_DD: Tensor, bias_D: Tensor, number: int) -> nn.Module:
    affine = _Affine(weight_DD, bias_D)
    affine.facts = {"micro": number}
    return nn.Sequential(_Chained(number), affine)


def _schedule(rows: list) -> list[list[Step]]:
    return [[Step(*step) for step in row] for row in rows]


def _plain(fault: Any) -> Any:
    return fault if fault is None or not isinstance(fault, tuple) else tuple(fault)
