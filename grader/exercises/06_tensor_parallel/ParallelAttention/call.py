"""How a rank calls ParallelAttention."""

from collections.abc import Callable
from typing import Any

from torch import nn

from grader.calling.sealing import unseal
from grader.calling.splitting import WORK, at_full_size, built, forward_and_back, linear_of, mark_parameters, parts_of
from utils.costs.flops import FlopCounter
from utils.trace.memory import held_bytes, tensors_in
from utils.trace.spans import mark

LAYERS = ("q", "k", "v", "out")


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """module = cls(q, k, v, out, n_heads, n_kv_heads, group), one pass each way → own parameters, y, dx, gradients."""
    start, counts = held_bytes(), (inputs["n_heads"], inputs["n_kv_heads"])
    module = built(lambda: cls(*(linear_of(inputs[name]) for name in LAYERS), *counts, group), inputs["refused"])
    if not isinstance(module, nn.Module):
        return module
    at_full_size(module)
    unseal(module, inputs)
    for whole in tensors_in([inputs[name] for name in LAYERS]):
        whole.zero_()  # what was cut is known to nobody who did not keep it
    mark_parameters(module, start)
    own = parts_of(module, *(f"{name}.{part}" for name in LAYERS for part in ("weight", "bias")))
    own_numbers = {name: None if p is None else p.detach().clone() for name, p in own.items()}
    x_BTD = inputs["x"].clone().requires_grad_()
    with FlopCounter() as counter:
        y_BTD = forward_and_back(lambda: module(x_BTD), inputs["weights"])
    mark(WORK, count=counter.total)
    gradients = {name: None if p is None else p.grad for name, p in own.items()}
    return {"parameters": own_numbers, "y": y_BTD, "dx": x_BTD.grad, "gradients": gradients}
