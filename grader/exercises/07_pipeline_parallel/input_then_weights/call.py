"""How a rank calls input_then_weights, on layers that tell of their gradients."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.rings import FLOPS
from grader.calling.schedules_run import CHAINED, DONE, Affine, Tell
from utils.costs.flops import FlopCounter
from utils.models.stages import with_layers
from utils.trace.spans import mark


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """dx, weights = fn(x, y, dy, layers) for each micro-batch on one stage; dx and gradients in between and in the end."""
    stage = nn.Sequential(*(_layer(tensors, number) for number, tensors in enumerate(inputs["weights"])))
    for name in inputs["frozen"]:
        stage.get_parameter(name).requires_grad_(False)
    returned: dict[str, Any] = {"dx": [], "early": [], "gradients": []}
    later = []
    for x_BD, dy_BD in zip(inputs["xs"], inputs["dys"], strict=True):
        x = x_BD.clone().requires_grad_(inputs["x_needs_gradient"])
        y, layers = with_layers(stage, x)
        y = y + layers[0][0] if inputs["residual"] else y
        mark(DONE, kind="begin", micro=len(later))
        with FlopCounter() as first_half:
            dx, weights = fn(x, y.sum() if dy_BD is None else y, dy_BD, layers)
        returned["dx"].append(dx)
        returned["early"] += ["x"] * (x.grad is not None)
        returned["early"] += [name for name, p in stage.named_parameters() if p.grad is not None and not later]
        mark(DONE, kind="later", micro=len(later))
        later.append((weights, first_half.total))
    for weights, first_count in later:
        with FlopCounter() as second_half:
            weights()
        mark(FLOPS, input=first_count, weights=second_half.total)
        returned["gradients"].append(
            {name: None if p.grad is None else p.grad.clone() for name, p in stage.named_parameters()})
    return returned


class _Chained(nn.Module):
    """tanh of a linear layer whose input gradient and weight gradient are told, by the layer's number."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number

    def forward(self, x_BD: Tensor) -> Tensor:
        return torch.tanh(Tell.apply(x_BD, {"kind": CHAINED, "micro": self.number}, None))


class _WithMore(Affine):
    """x W + b, and something added to it; and a parameter that is not used."""

    def __init__(self, weight_DD: Tensor, bias_BD: Tensor, added_BD: Tensor, unused: Tensor):
        super().__init__(weight_DD, bias_BD)
        self.added, self.unused = nn.Parameter(added_BD.clone()), nn.Parameter(unused.clone())

    def forward(self, x_BD: Tensor) -> Tensor:
        return super().forward(x_BD) + self.added


def _layer(tensors: list[Tensor], number: int) -> nn.Module:
    affine = (_WithMore if len(tensors) > 2 else Affine)(*tensors)
    affine.facts = {"micro": number}
    return nn.Sequential(_Chained(number), affine)
