"""Inside a rank: the ways in which an exercise's function is given a model, and what of it is looked at afterwards."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from grader.calling.zoo import build, loss_rows
from utils.trace.spans import mark, span

REPLACED, STANDING = "parameter replaced", "gradients stand"
OPTIMIZERS = {"SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW}


def call_with_model(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(model, group) → the model's state afterwards; leaves a mark for a parameter that is no longer the same object."""
    model = build(inputs["model"], inputs["seed"])
    before = dict(model.named_parameters(remove_duplicate=False))
    fn(model, group)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter is not before[name]:
            mark(REPLACED, parameter=name)
    return _numbers(model.state_dict())


def call_with_gradients(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(model, group) on a model whose gradients were computed → its gradients afterwards."""
    model = build(inputs["model"], inputs["seed"])
    loss_rows(model(inputs["x"]), inputs["y"]).mean().backward()
    fn(model, group)
    return gradients(model)


def call_backward(fn: Callable, inputs: dict[str, Any], group) -> list[dict[str, Any]]:
    """finish = fn(model, group), then some times backward and finish() → the gradients each time."""
    model = build(inputs["model"], inputs["seed"])
    finish, found = fn(model, group), []
    for x, y in zip(inputs["xs"], inputs["ys"], strict=True):
        model.zero_grad()
        loss = loss_rows(model(x), y).mean()
        with span("backward"):
            loss.backward()
        finish()
        found.append(gradients(model))
    return found


def call_step(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(model, loss_fn, x, y, batch_size, optimizer, group) a few times → losses, and the parameters at the end."""
    model = build(inputs["model"], inputs["seed"])
    optimizer = make_optimizer(inputs, model.parameters())
    losses = [fn(model, loss_rows, x, y, inputs["batch_size"], optimizer, group)
              for x, y in zip(inputs["xs"], inputs["ys"], strict=True)]
    return {"losses": losses, "parameters": parameters(model)}


def call_wrapped(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(module), or fn(module, group) for a part of the world, wraps; some steps of `micro` backward passes each →
    what it began with, the first step's gradients, the parameters at the end."""
    module = build(inputs["model"], inputs["seed"])
    wrapped = fn(module) if group is dist.group.WORLD else fn(module, group)
    start = {name: value.clone() for name, value in _numbers(module.state_dict()).items()}
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


def watch_gradients(model: nn.Module) -> None:
    """At each gradient that comes, a mark of how many bytes of gradients still stand, wherever they are kept.

    Registered first, so that the newest is counted before anything can be done to it. A gradient stands as long as any
    part of it is kept, such as a slice.
    """
    standing: dict[int, tuple[weakref.ref, int]] = {}

    def note(parameter: nn.Parameter) -> None:
        storage = parameter.grad.untyped_storage()
        standing[storage.data_ptr()] = weakref.ref(storage), storage.nbytes()
        mark(STANDING, bytes=sum(nbytes for one, nbytes in standing.values() if one() is not None))

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(note)


def make_optimizer(inputs: dict[str, Any], trained) -> torch.optim.Optimizer:
    """The optimizer that a case names, with the learning rate and options that it names."""
    return OPTIMIZERS[inputs["optimizer"]](trained, lr=inputs["lr"], **inputs.get("options", {}))


class Held(dict):
    """A result that keeps alive what it came from, until the memory that this takes has been counted."""

    alive: tuple = ()


def held(result: dict[str, Any], *alive: Any) -> Held:
    """The result, and what it is to keep alive."""
    holder = Held(result)
    holder.alive = alive
    return holder


def gradients(model: nn.Module) -> dict[str, Any]:
    """Name → gradient, None where there is none."""
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def parameters(model: nn.Module) -> dict[str, Any]:
    """Name → value."""
    return _numbers(dict(model.named_parameters()))


def _numbers(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.detach() for name, value in state.items()}
