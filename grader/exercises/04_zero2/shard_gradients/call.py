"""How a rank calls shard_gradients."""

from collections.abc import Callable
from typing import Any

from grader.calling.sharding import shards_by_name
from grader.calling.training import held_before, watch_gradients
from grader.calling.weighing import weigh_at_gradients
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import span


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """shards = fn(model, group), then some backward passes → the shards, and whether gradients were left behind.

    Marks what is held afterwards beside the shards. inputs["cleared"]: they are thrown away before the last pass.
    inputs["turned"]: matrices lie in memory column by column, and so do their gradients.
    """
    model = build(inputs["model"], inputs["seed"])
    for p in model.parameters() if inputs["turned"] else ():
        p.data = p.data.T.contiguous().T if p.dim() == 2 else p.data
    watch_gradients(model)
    weigh_at_gradients(model, inputs)
    start = held_before(inputs)
    shards = fn(model, group)
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True), 1):
        if inputs.get("cleared") and number == len(inputs["xs"]):
            shards.clear()
        with span("backward"):
            loss_rows(model(x), y).mean().backward()
    return shards_by_name(model, shards, start)
