"""The model that a case trains, as it is at the start, and which gradients it has: what limits on bytes are counted from."""

from __future__ import annotations

from torch import Tensor, nn

from grader.calling.training import gradients
from grader.calling.zoo import build, loss_rows
from grader.evidence.case import Case


def model_of(case: Case, rank: int) -> nn.Module:
    """The model as the first member of `rank`'s group has it at the start."""
    first = case.inputs[case.members(rank)[0]]
    return build(first["model"], first["seed"])


def some_gradients(case: Case, rank: int) -> dict[str, Tensor]:
    """Name → a gradient, of those parameters that have one; a tied one once."""
    model, inputs = model_of(case, rank), case.inputs[rank]
    x, y = (inputs[name] if name in inputs else inputs[f"{name}s"][0] for name in ("x", "y"))
    loss = loss_rows(model(x), y).sum()
    if loss.requires_grad:
        loss.backward()
    return {name: gradient for name, gradient in gradients(model).items() if gradient is not None}
