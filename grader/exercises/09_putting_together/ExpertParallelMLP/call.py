"""How a rank calls ExpertParallelMLP."""

from collections.abc import Callable
from typing import Any

from grader.calling.experts import make_moe
from grader.calling.splitting import call_split_layer, halved


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """layer = cls(moe, group) on a whole mixture of experts, then forward and backward → y, dx, gradients by name."""
    return call_split_layer(lambda: cls(halved(make_moe(inputs)), group), inputs, "router.weight", "experts")
