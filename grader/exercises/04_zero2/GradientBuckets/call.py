"""How a rank calls GradientBuckets."""

from collections.abc import Callable
from typing import Any

from torch import nn

from grader.calling.sharding import BACKWARD, HELD, shards_by_name
from grader.calling.training import held_before, watch_gradients
from grader.calling.weighing import weigh_at_gradients
from grader.calling.zoo import build, loss_rows
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """buckets = fn(model, bucket_bytes, in_flight, group), then some times backward and buckets.finish() → the shards, and
    whether gradients were left behind.

    Marks what is held, when a gradient comes, beyond what was held when the pass began; and afterwards beside the shards.
    """
    model = build(inputs["model"], inputs["seed"])
    watch_gradients(model)
    weigh_at_gradients(model, inputs)
    note_begin = _watch_memory(model)
    start = held_before(inputs)
    buckets = fn(model, inputs["bucket_bytes"], inputs["in_flight"], group)
    for x, y in zip(inputs["xs"], inputs["ys"], strict=True):
        loss = loss_rows(model(x), y).mean()
        note_begin()
        with span("backward"):
            loss.backward()
        buckets.finish()
    del loss
    return shards_by_name(model, buckets.shards, start)


def _watch_memory(model: nn.Module) -> Callable[[], None]:
    """Registered first, so that nothing has been done yet to the newest gradient. To be called before each backward pass."""
    begun = [0]

    def note(_: nn.Parameter) -> None:
        mark(HELD, phase=BACKWARD, bytes=held_bytes() - begun[0])

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(note)

    def note_begin() -> None:
        begun[0] = held_bytes()

    return note_begin
