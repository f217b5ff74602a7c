"""How a rank calls FullyShard, and what extends it."""

from collections.abc import Callable
from typing import Any

import torch

from grader.calling.sharding import BACKWARD, COMPUTED_IN, OWNED, dtype_of, watch_layers
from grader.calling.training import make_optimizer
from grader.calling.weighing import BETWEEN_PASSES, END, weigh
from grader.calling.zoo import build, digits_kept, loss_rows
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call_fully_sharded(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """wrapped = fn(module, compute_dtype, group); steps of `micro` passes each → the whole parameters at the end.

    glance: what a pass without gradients gets before the first update, if there is one.
    """
    module = build(inputs["model"], inputs["seed"])
    numbers: dict[str, int] = {}
    watch_layers(module, numbers)
    options = {name: value for name, value in inputs.get("wrapping", {}).items() if value is not True}  # as it is by default
    wrapped = fn(module, dtype_of(inputs["compute_dtype"]), group, **options)
    mark(OWNED, count=sum(p.numel() for p in wrapped.parameters()))
    start = wrapped.full_parameters()
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    trained = [p for p in wrapped.parameters() if p.requires_grad]
    optimizer = make_optimizer(inputs, trained) if trained else None
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True), 1):
        numbers["start"] = held_bytes()
        output = wrapped(x=x) if inputs["model"] in ("odd", "keywords", "buffered") else wrapped(x)
        mark(COMPUTED_IN, dtype=str(output.dtype))
        weigh(inputs, BETWEEN_PASSES)
        loss = loss_rows(output, y).mean() / inputs["micro"]
        with span(BACKWARD):
            if loss.requires_grad:
                loss.backward()
        wrapped.finish_gradient_synchronization()
        if "glance" in inputs and number == inputs["micro"]:
            with torch.no_grad():
                wrapped(inputs["glance"])
        if number % inputs["micro"] == 0 and optimizer:
            optimizer.step()
            optimizer.zero_grad()
    weigh(inputs, END)
    parameters = wrapped.full_parameters()
    return {"start": start, "digits kept": digits_kept(start), "buffers": buffers, "parameters": parameters}
