"""Inside a rank: the ways in which an exercise's function is given a model, and what of it is looked at afterwards."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import StepLR

from grader.calling.zoo import build, loss_rows
from utils.trace.spans import mark, span

REPLACED, STANDING, LEFT = "parameter replaced", "gradients stand", "gradients left"
OPTIMIZERS = {"SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW}


def call_sharded_step(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(flat_P, gradient_P, shard_C, optimizer, group) a few times → all parameters, and this rank's shard."""
    flat_P, n, r = inputs["flat"].clone(), dist.get_world_size(group), dist.get_rank(group)
    shard_C = nn.Parameter(flat_P.chunk(n)[r].clone())
    optimizer = make_optimizer(inputs, [shard_C])
    for gradient_P in inputs["gradients"]:
        fn(flat_P, gradient_P.clone(), shard_C, optimizer, group)
    return {"flat": flat_P, "shard": shard_C.detach()}


def call_clip(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(gradient_C, max_norm, group) → what it returned, and the gradient."""
    gradient_C = inputs["gradient_C"].clone()
    norm = fn(gradient_C, inputs["max_norm"], group)
    return {"norm": float(norm), "gradient": gradient_C}


def call_optimizer(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(params, optimizer class, group, lr=…) trains, a second one goes on from its state → parameters, the last loss."""
    model = build(inputs["model"], inputs["seed"])

    def make():
        return fn(param_groups(model, inputs), OPTIMIZERS[inputs["optimizer"]], group, lr=inputs["lr"], **inputs["options"])

    optimizer, loss = train_on(model, make, inputs)
    return _holding({"parameters": parameters(model), "loss": loss}, model, optimizer)


def call_sharding_gradients(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
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


def call_zero2(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """trainer = fn(module, optimizer class, group, lr=…); steps of `micro` backward passes each → the parameters."""
    model = build(inputs["model"], inputs["seed"])
    watch_gradients(model)
    trainer = fn(model, OPTIMIZERS[inputs["optimizer"]], group, lr=inputs["lr"], **inputs["options"])
    scheduler = StepLR(trainer.optimizer, 1, gamma=inputs["gamma"])
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True), 1):
        with span("backward"):
            (loss_rows(model(x), y).mean() / inputs["micro"]).backward()
        if number % inputs["micro"] == 0:
            trainer.step()
            trainer.zero_grad()
            scheduler.step()
    return _holding(parameters(model), model, trainer)


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


def train_on(model: nn.Module, make: Callable[[], Any], inputs: dict[str, Any]) -> tuple[Any, Any]:
    """Some steps on batches of its own, under a scheduler; halfway a second optimizer goes on from the first one's state.

    The rate is halved before the second half, and then after every step. Leaves a mark for gradients that are left after
    zero_grad(). → the second optimizer, and what its last step returned.
    """
    optimizer, half = make(), len(inputs["xs"]) // 2
    scheduler = StepLR(optimizer, half, gamma=0.5)
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True)):
        if number == half:
            state, optimizer = optimizer.state_dict(), make()
            optimizer.load_state_dict(state)
            scheduler = StepLR(optimizer, 1, gamma=0.5)
        optimizer.zero_grad()
        mark(LEFT, count=sum(p.grad is not None and bool(p.grad.any()) for p in model.parameters()))

        def closure(x=x, y=y) -> torch.Tensor:
            loss = loss_rows(model(x), y).mean()
            loss.backward()
            return loss.detach()

        if number < half:
            closure()
        with span("step"):
            loss = optimizer.step(closure) if number >= half else optimizer.step()
        scheduler.step()
    return optimizer, loss


def param_groups(model: nn.Module, inputs: dict[str, Any]) -> list:
    """The trained parameters; where the case says so, as two groups of which the second has another learning rate."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not inputs["two_groups"]:
        return trained
    return [{"params": [p for p in trained if p.dim() > 1]},
            {"params": [p for p in trained if p.dim() <= 1], "lr": 2 * inputs["lr"]}]


def make_optimizer(inputs: dict[str, Any], trained) -> torch.optim.Optimizer:
    """The optimizer that a case names, with the learning rate and options that it names."""
    return OPTIMIZERS[inputs["optimizer"]](trained, lr=inputs["lr"], **inputs.get("options", {}))


class Held(dict):
    """A result that keeps alive what it came from, until the memory that this takes has been counted."""

    alive: tuple = ()


def _holding(result: dict[str, Any], *alive: Any) -> Held:
    held = Held(result)
    held.alive = alive
    return held


def gradients(model: nn.Module) -> dict[str, Any]:
    """Name → gradient, None where there is none."""
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def parameters(model: nn.Module) -> dict[str, Any]:
    """Name → value."""
    return _numbers(dict(model.named_parameters()))


def _numbers(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.detach() for name, value in state.items()}
