"""How a rank calls DataParallel."""

import contextlib

import torch.distributed as dist

from grader.calling.training import gradients, make_optimizer, numbers, parameters
from grader.calling.zoo import build, loss_rows
from utils.trace.spans import span


def call(fn, inputs: dict, group) -> dict:
    """fn(module), or fn(module, group) for a part of the world, wraps; some steps of `micro` backward passes each →
    what it began with, the first step's gradients, the parameters at the end."""
    module = build(inputs["model"], inputs["seed"])
    wrapped = fn(module) if group is dist.group.WORLD else fn(module, group)
    start = {name: value.clone() for name, value in numbers(module).items()}
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = make_optimizer(inputs, trained) if trained else None
    first, micro = {}, inputs["micro"]
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True)):
        last = (number + 1) % micro == 0
        with contextlib.nullcontext() if last else wrapped.no_sync():
            loss = loss_rows(wrapped(x), y).mean() / micro
            with span("backward" if last else "accumulation"):
                if loss.requires_grad:
                    loss.backward()
        if last:
            wrapped.finish_gradient_synchronization()
            first = first or gradients(module)
            if optimizer:
                optimizer.step()
                optimizer.zero_grad()
    return {"start": start, "gradients": first, "parameters": parameters(module)}
