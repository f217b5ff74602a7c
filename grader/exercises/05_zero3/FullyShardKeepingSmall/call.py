"""How a rank calls FullyShardKeepingSmall."""

from collections.abc import Callable
from typing import Any

from grader.calling.sharding import OWNED, dtype_of
from grader.calling.training import make_optimizer
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import mark


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """wrapped = fn(module, keep_whole_below, compute_dtype, group); steps of `micro` passes each → all parameters at the
    start and at the end, and in between the gradients of the small ones. Marks how much of each parameter
    is held between the steps.
    """
    module, below = build(inputs["model"], inputs["seed"]), inputs["keep_whole_below"]
    parameters, gradients = dict(module.named_parameters()), None
    small = {name: p for name, p in parameters.items() if p.numel() < below}
    wrapped = fn(module, below, dtype_of(inputs["compute_dtype"]), group)
    start = wrapped.full_parameters()
    optimizer = make_optimizer(inputs, [p for p in parameters.values() if p.requires_grad])
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True), 1):
        mark(OWNED, sizes={name: p.numel() for name, p in parameters.items()})
        (loss_rows(wrapped(x), y).mean() / inputs["micro"]).backward()
        wrapped.finish_gradient_synchronization()
        if number % inputs["micro"] == 0:
            gradients = gradients or {name: None if p.grad is None else p.grad.clone() for name, p in small.items()}
            optimizer.step()
            optimizer.zero_grad()
    mark(OWNED, sizes={name: p.numel() for name, p in parameters.items()})
    return {"start": start, "gradients": gradients or {}, "parameters": wrapped.full_parameters()}
