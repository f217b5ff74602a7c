"""How a rank calls ShardedLinear."""

from typing import Any

import torch

from grader.calling.sharding import BACKWARD, FORWARD, HELD
from grader.calling.weighing import END, weigh
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """A chain of layers y = tanh(function.apply(x, shard, n_out, group)) and its gradients; whether every dy stayed as it
    was, which other branches may share. Marks what stands after each layer.
    """
    x_BI = inputs["x"].clone().requires_grad_()
    shards, y_BO, start = [shard.clone().requires_grad_() for shard in inputs["shards"]], x_BI, held_bytes()
    given: list[tuple[torch.Tensor, int]] = []  # the dy that is on its way, and its version
    kept = []
    for shard_C, n_out in zip(shards, inputs["n_outs"], strict=True):
        y_BO.register_hook(lambda dx: kept.append(_unchanged(given)))
        y_BO = function.apply(y_BO, shard_C, n_out, group)
        y_BO.register_hook(lambda dy: given.append((dy, dy._version)))
        y_BO = torch.tanh(y_BO)
        mark(HELD, phase=FORWARD, bytes=held_bytes() - start)
    weigh(inputs, END)
    with span(BACKWARD):
        (y_BO * inputs["weights"]).sum().backward()
    return {"y": y_BO, "dx": x_BI.grad, "dshards": [shard.grad for shard in shards], "dy as it was": all(kept)}


def _unchanged(given: list[tuple[torch.Tensor, int]]) -> bool:
    dy, version = given.pop()
    return dy._version == version
