"""How a rank calls DataParallel."""

import contextlib
import inspect
from functools import partial

import torch.distributed as dist

from grader.calling.training import (
    NESTED,
    QUIET,
    WRAPPING,
    gradients,
    leave_gradients,
    make_optimizer,
    numbers,
    parameters,
    watch_gradients,
)
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import HELD_UP, pause, span


class _Interrupted(Exception):
    """What ends a block of no_sync()."""


@contextlib.contextmanager
def _quiet(wrapped, nested: bool):
    """no_sync(), and whether another one begins and ends inside it first; else one is broken off before."""
    if not nested:
        with contextlib.suppress(_Interrupted), wrapped.no_sync():
            raise _Interrupted
    with wrapped.no_sync():
        if nested:
            with wrapped.no_sync():
                pass
        with span(NESTED if nested else QUIET):
            yield


def call(fn, inputs: dict, group) -> dict:
    """fn(module), or fn(module, group) for a part of the world, wraps; some steps of `micro` backward passes each →
    what it began with, the first step's gradients, the parameters at the end."""
    module = build(inputs["model"], inputs["seed"])
    if inputs.get("watched"):  # where a bucket holds all there is, the last gradient may find nothing begun
        watch_gradients(module)
    with span(WRAPPING):
        wrapped = fn(module) if group is dist.group.WORLD else fn(module, group)
    leave_gradients(module, inputs.get("left"))
    keyword, = inspect.signature(module.forward).parameters
    start = {name: value.clone() for name, value in numbers(module).items()}
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = make_optimizer(inputs, trained) if trained else None
    first, micro = {}, inputs["micro"]
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True)):
        last, odd = (number + 1) % micro == 0, bool(number // micro % 2)
        forward = partial(wrapped, **{keyword: x}) if odd else partial(wrapped, x)
        early = forward() if not (odd or last) else None  # whoever asks in forward whether to send, asks too soon
        with contextlib.nullcontext() if last else _quiet(wrapped, nested=odd):
            loss = loss_rows(forward() if early is None else early, y).mean() / micro
            if last and first:
                pause(HELD_UP)
            with span("backward") if last else contextlib.nullcontext():
                if loss.requires_grad:
                    loss.backward()
        if last:
            wrapped.finish_gradient_synchronization()
            first = first or gradients(module)
            if optimizer:
                optimizer.step()
                optimizer.zero_grad()
    return {"start": start, "gradients": first, "parameters": parameters(module)}
