"""How a rank calls average_gradients."""

from torch import nn

from grader.calling.training import GRADIENT_REPLACED, gradients
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import mark


def call(fn, inputs: dict, group) -> dict:
    """fn(model, group) on a model whose gradients were computed → its gradients afterwards; leaves a mark of those
    that were replaced."""
    model = build(inputs["model"], inputs["seed"])
    loss_rows(model(inputs["x"]), inputs["y"]).mean().backward()
    before = {name: (p.grad, _place(p)) for name, p in model.named_parameters()}
    fn(model, group)
    mark(GRADIENT_REPLACED, names=[name for name, p in model.named_parameters()
                                   if p.grad is not before[name][0] or _place(p) != before[name][1]])
    return gradients(model)


def _place(parameter: nn.Parameter) -> int | None:
    """Where its gradient's memory begins."""
    return None if parameter.grad is None else parameter.grad.data_ptr()
