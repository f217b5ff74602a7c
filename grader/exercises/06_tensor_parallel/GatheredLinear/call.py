"""How a rank calls GatheredLinear."""

from typing import Any

import torch

from grader.calling.splitting import BACKWARD, FORWARD
from utils.trace.spans import span


def call(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """y = function.apply(x, w, group), and the gradients of a loss that every rank computes alike from the whole y.

    Between forward and backward another layer is applied, to −x and with 2w: what the first gave and kept must not change.
    """
    x_BI, w_PI = inputs["x"].clone().requires_grad_(), inputs["w"].clone().requires_grad_()
    with span(FORWARD):
        y_BO = function.apply(x_BI, w_PI, group)
    function.apply(-x_BI.detach(), 2 * w_PI.detach(), group)
    y_before_backward = y_BO.detach().clone()
    if y_BO.shape != inputs["c"].shape:  # no loss can be made of it
        return {"y": y_before_backward, "dx": None, "dW": None}
    loss = (torch.tanh(y_BO) * inputs["c"]).sum()
    with span(BACKWARD):
        loss.backward()
    return {"y": y_before_backward, "dx": x_BI.grad, "dW": w_PI.grad}
