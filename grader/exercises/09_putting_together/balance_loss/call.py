"""How a rank calls balance_loss."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from grader.calling.sequences import BACKWARD, FORWARD, leaf
from grader.calling.splitting import go_back
from utils.trace.spans import span


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """loss = fn(probabilities, experts, group), and the gradient of factor·loss for the probabilities, None without."""
    probabilities = leaf(inputs["probabilities"])
    with span(FORWARD):
        loss = fn(probabilities, inputs["experts"].clone(), group)
    if isinstance(loss, Tensor) and loss.requires_grad and loss.shape == ():
        before_backward = loss.detach().clone()
        with span(BACKWARD):
            go_back(loss, loss.new_tensor(inputs["factor"]))
        loss = before_backward
    return {"loss": loss, "dprobabilities": probabilities.grad}
