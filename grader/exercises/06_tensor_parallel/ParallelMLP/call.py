"""How a rank calls ParallelMLP."""

from collections.abc import Callable
from typing import Any

from torch import nn

from grader.calling.splitting import call_split_layer, linear_of


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """mlp = cls(up, down, group[, gate]) on whole linear layers, then forward and backward → y, dx, gradients by name.

    With a gate in eval(), which changes nothing: gradients may be asked for there as well.
    """

    def make() -> nn.Module:
        gate = {} if inputs["gate"] is None else {"gate": linear_of(inputs["gate"])}
        mlp = cls(linear_of(inputs["up"]), linear_of(inputs["down"]), group, **gate)
        return mlp.eval() if gate and isinstance(mlp, nn.Module) else mlp

    return call_split_layer(make, inputs, "up.weight", "up.bias", "down.weight", "down.bias", "gate")
