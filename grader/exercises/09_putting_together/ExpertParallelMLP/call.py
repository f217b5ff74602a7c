"""How a rank calls ExpertParallelMLP."""

from collections.abc import Callable
from typing import Any

from torch import nn

from grader.calling.experts import make_moe
from grader.calling.splitting import call_split_layer, halved


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """layer = cls(moe, group) on a whole mixture of experts, then forward and backward → y, dx, gradients by name."""
    def make() -> nn.Module:
        moe = halved(make_moe(inputs))
        inputs.pop("seed")  # by which whoever finds it could make all experts again
        return cls(moe, group)

    return call_split_layer(make, inputs, "router.weight", "experts")
