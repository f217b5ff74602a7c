"""How a rank calls ExpertParallelMLP."""

from collections.abc import Callable
from typing import Any

from torch import nn

from grader.calling.experts import each_expert, make_moe
from grader.calling.splitting import call_split_layer, halved
from grader.evidence.case import SEALED


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """layer = cls(moe, group) on a whole mixture of experts, then forward and backward → y, dx, gradients by name."""
    def make() -> nn.Module:
        return cls(halved(make_moe(inputs)), group)

    own = {SEALED: each_expert(inputs[SEALED])} if SEALED in inputs else {}
    return call_split_layer(make, inputs | own, "router.weight", "experts")
