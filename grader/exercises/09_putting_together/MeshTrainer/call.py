"""How a rank calls MeshTrainer: with right parts, which are data of one process, whatever the student's own are."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from grader.calling.meshes import as_number, gradients_of, groups_of, leave_gradients, make_model
from grader.calling.numberless import NumbersWatched
from grader.calling.right_parts import hand_parts
from utils.models.mesh_stage import MeshStage
from utils.trace.spans import mark

PART = "a part of the step"
RUN, REDUCE, NORM = "passes.run", "reduce_gradients", "mesh_gradient_norm"


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """Some steps of cls(stage, optimizer, n_micro, mesh, max_norm) → losses, first gradients that are used, parameters."""
    mesh = groups_of(inputs["lines"])
    stage = MeshStage(make_model(inputs["model"]), mesh["pp"], mesh["tp"])
    with torch.no_grad():
        for name, p in stage.named_parameters():
            p.copy_(inputs["weights"][name])
    if inputs["left"]:
        leave_gradients(stage)
    batches, first = list(zip(inputs["tokens"], inputs["targets"], strict=True)), {}
    parts = _Parts(stage, inputs["steps"], batches)
    optimizer = torch.optim.SGD(stage.parameters(), lr=inputs["lr"])
    optimizer.register_step_pre_hook(lambda *_: first.update({} if first else gradients_of(stage)))
    hand_parts(cls, MeshPasses=parts.passes, reduce_gradients=parts.reduce, mesh_gradient_norm=parts.norm)
    trainer = cls(stage, optimizer, inputs["n_micro"], mesh, inputs["max_norm"])
    with NumbersWatched():
        losses = [trainer.step(*batch) for batch in batches]
    return {"losses": [as_number(loss) for loss in losses], "gradients": first,
            "parameters": {name: p.detach() for name, p in stage.named_parameters()}}


class _Parts:
    """Passes, reduction and norm, by what one process found in each step. Each marks that it was called.

    They add, as the right ones do: what was left in .grad stays in it.
    """

    def __init__(self, stage: nn.Module, steps: list[dict[str, Any]], batches: list[tuple[Tensor, Tensor]]):
        self.stage, self.steps, self.batches, self.number = stage, steps, batches, -1

    def passes(self, stage: nn.Module, n_micro: int, mesh: dict[str, dist.ProcessGroup]) -> "_Parts":
        return self

    def run(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        self.number = min(self.number + 1, len(self.steps) - 1)
        with torch._C.DisableTorchFunction():  # it is not the student who asks for numbers
            whole = all(torch.equal(*pair) for pair in zip((tokens_BT, targets_BT), self.batches[self.number], strict=True))
        mark(PART, part=RUN, rows=len(tokens_BT), whole=whole)
        self._add(self._step["own"])
        return self._step["loss"].clone()

    def reduce(self, stage: nn.Module, mesh: dict[str, dist.ProcessGroup]) -> None:
        self._note(REDUCE, stage)
        self._add({name: whole - self._step["own"][name] for name, whole in self._step["reduced"].items()})

    def norm(self, stage: nn.Module, mesh: dict[str, dist.ProcessGroup]) -> Tensor:
        """As many times too large as this rank's gradients are."""
        self._note(NORM, stage)
        own = torch.nn.utils.get_total_norm([p.grad for p in self.stage.parameters()])
        return self._step["norm"] * own / torch.nn.utils.get_total_norm(list(self._step["reduced"].values()))

    def _note(self, part: str, stage: nn.Module) -> None:
        if stage is not self.stage:
            raise TypeError(f"{part}(stage, mesh) was called with another stage than self.stage: {type(stage).__name__}")
        mark(PART, part=part)

    @property
    def _step(self) -> dict[str, Any]:
        return self.steps[self.number]

    def _add(self, more: dict[str, Tensor]) -> None:
        for name, p in self.stage.named_parameters():
            p.grad = more[name].clone() if p.grad is None else p.grad + more[name]
