"""How a rank calls average_gradients."""

from grader.calling.training import gradients
from grader.calling.zoo import build, loss_rows


def call(fn, inputs: dict, group) -> dict:
    """fn(model, group) on a model whose gradients were computed → its gradients afterwards."""
    model = build(inputs["model"], inputs["seed"])
    loss_rows(model(inputs["x"]), inputs["y"]).mean().backward()
    fn(model, group)
    return gradients(model)
