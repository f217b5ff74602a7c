"""How a rank calls shard_gradients."""

from collections.abc import Callable
from typing import Any

from grader.calling.training import watch_gradients
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import span


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """shards = fn(model, group), then some backward passes → the shards, and whether gradients were left behind."""
    model = build(inputs["model"], inputs["seed"])
    watch_gradients(model)
    shards = fn(model, group)
    for x, y in zip(inputs["xs"], inputs["ys"], strict=True):
        with span("backward"):
            loss_rows(model(x), y).mean().backward()
    left = sorted(name for name, p in model.named_parameters() if p.grad is not None)
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {"shards": {names[p]: shard for p, shard in shards.items()}, "gradients left": left}
