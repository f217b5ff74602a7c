"""How a rank calls Pipeline, on stages that tell what is done to them."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.going_through import numbers_of
from grader.calling.letting_go import settled
from grader.calling.pipelining import only_for
from grader.calling.schedules_run import ALIVE, DONE, LEFT, Affine, Tell, as_schedule
from grader.evidence.case import Case
from utils.schedules.schedule import Shape
from utils.trace.spans import mark


def hand_out(case: Case) -> list[dict[str, Any]]:
    """Each rank gets its own stages' weights; xs are zeros but on the first stage's rank, ys but on the last one's."""
    return [_own(inputs, case.group_rank(rank)) for rank, inputs in enumerate(case.inputs)]


def _own(inputs: dict[str, Any], rank: int) -> dict[str, Any]:
    shape = Shape(*inputs["shape"])
    stages = range(rank, shape.n_stages, shape.n_ranks)
    return inputs | {"weights": {stage: inputs["weights"][stage] for stage in stages},
                     "xs": only_for(0 in stages, inputs["xs"]), "ys": only_for(shape.n_stages - 1 in stages, inputs["ys"])}


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """cls(stages, schedule, shape, loss_fn, like, group), then steps → losses, and the gradients of this rank's stages.

    x carries the number of the micro-batch in its last column, which stages pass on unchanged.
    """
    shape, alive = Shape(*inputs["shape"]), {}
    stages = {stage: PipelineStage(*weights, stage, alive) for stage, weights in inputs["weights"].items()}
    like = torch.empty(inputs["xs"][0][0].shape, dtype=next(iter(stages.values())).inner.weight.dtype)
    try:
        pipeline = cls(stages, as_schedule(inputs["schedule"]), shape, squared_error, like, group)
    except ValueError as error:
        return {"ValueError": str(error)}
    losses = [_plain(pipeline.step([x.clone() for x in xs], list(ys)))
              for xs, ys in zip(inputs["xs"], inputs["ys"], strict=True)]
    mark(LEFT, count=settled(lambda: sum(kept() is not None for stage in stages.values() for kept in stage.messages), 0))
    gradients = {f"{s}.{name}": p.grad for s, stage in stages.items() for name, p in stage.named_parameters()}
    return {"losses": losses, "gradients": gradients}


def _plain(losses: Any) -> Any:
    if not isinstance(losses, (list, tuple)):
        return losses
    return [loss.detach() if isinstance(loss, Tensor) else loss for loss in losses]


def floating(x_BE: Tensor, dtype: torch.dtype) -> Tensor:
    """Whole numbers, as tokens are, count as fiftieths, but for the last column."""
    if x_BE.is_floating_point():
        return x_BE
    return torch.cat([x_BE[:, :-1].to(dtype) / 50, x_BE[:, -1:].to(dtype)], 1)


def squared_error(output_BD: Tensor, y_BD: Tensor) -> Tensor:
    """Mean over rows and columns, the last column apart."""
    return ((output_BD[:, :-1] - y_BD) ** 2).mean()


class PipelineStage(nn.Module):
    """x (B, D+1) → tanh(x W + b) in the first D columns, the last as it was; marks of F, I and W have their numbers."""

    def __init__(self, weight_DD: Tensor, bias_D: Tensor, stage: int, alive: dict[int, int]):
        super().__init__()
        self.inner = Affine(weight_DD, bias_D)
        self.inner.facts = {"stage": stage}
        self.stage, self.alive = stage, alive
        self.messages: list[weakref.ref] = []  # the memory of what comes from another stage, and of what is to go to one

    def forward(self, x_BE: Tensor) -> Tensor:
        received = x_BE
        x_BE = floating(x_BE, self.inner.weight.dtype)
        micro = int(x_BE[0, -1].item())
        facts = {"micro": micro, "stage": self.stage}
        mark(DONE, kind="F", rows=numbers_of(x_BE), **facts)
        passed = Tell.apply(x_BE, {"kind": "I", **facts}, _Life(self.alive))
        self.inner.facts = facts
        y_BD = torch.tanh(self.inner(passed[:, :-1]))
        mark(ALIVE, count=len(self.alive), rows=numbers_of(y_BD), **facts)
        y_BE = torch.cat([y_BD, x_BE[:, -1:].detach()], 1)
        for message in (received, y_BE)[self.stage == 0:]:
            self._follow(message)
        if received.requires_grad:
            received.register_hook(self._follow)
        return y_BE

    def _follow(self, message: Tensor) -> None:
        self.messages.append(weakref.ref(message.untyped_storage()))


class _Life:
    """Stands in a set of the living for as long as anybody holds it: a graph does, from forward until it is let go."""

    def __init__(self, alive: dict[int, int]):
        self.alive = alive
        alive[id(self)] = 1

    def __del__(self):
        self.alive.pop(id(self), None)
