"""How a rank calls average_gradients."""

from collections.abc import Callable
from typing import Any

from grader.calling.training import gradients
from grader.calling.zoo import build, loss_rows


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(model, group) on a model whose gradients were computed → its gradients afterwards."""
    model = build(inputs["model"], inputs["seed"])
    loss_rows(model(inputs["x"]), inputs["y"]).mean().backward()
    fn(model, group)
    return gradients(model)
