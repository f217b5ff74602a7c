"""How a rank calls GatherLinear."""

from typing import Any

import torch

from grader.calling.letting_go import settled_bytes
from grader.calling.sequences import BACKWARD, FORWARD, KEPT, leaf
from grader.calling.splitting import laid_out
from grader.calling.weighing import END, weigh
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """function.apply(x, weight, bias, group) → y and three gradients; marks what stands between forward and backward."""
    x, dy = (laid_out(inputs[name], inputs["transposed"]) for name in ("x", "weights"))
    x.requires_grad_()
    weight, bias = (leaf(inputs[name]) for name in ("weight", "bias"))
    start = held_bytes()
    with span(FORWARD):
        y = function.apply(x, weight, bias, group)
    mark(KEPT, bytes=settled_bytes(start, y.nbytes + inputs["x"].nbytes) - y.nbytes)
    weigh(inputs, END)
    if y.shape == dy.shape:
        with span(BACKWARD):
            y.backward(dy)
    return {"y": y, "dx": x.grad, "dweight": weight.grad, "dbias": bias.grad}
