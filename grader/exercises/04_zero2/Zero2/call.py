"""How a rank calls Zero2."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import StepLR

from grader.calling.letting_go import settled_bytes
from grader.calling.sharding import AFTER, HELD
from grader.calling.training import (
    ACCEPTED,
    NOTHING,
    OPTIMIZERS,
    UNEQUAL,
    Held,
    accepted,
    held_before,
    parameters,
    state_bytes,
)
from grader.calling.weighing import END, weigh, weigh_at_gradients
from grader.calling.zoo import build, loss_rows
from utils.models.tiny import same_start
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span

WAITING = "after a backward pass"
STEPPED_IN = "types of the shards"
IN_FLIGHT = 2  # gradients
OF_16_BITS = "types of the shards of a module of bfloat16"


class Buckets:
    """Stands in for GradientBuckets, so that a mistake there costs nothing here. It takes another way than asked for there:
    it all-reduces each gradient by itself."""

    def __init__(self, model: nn.Module, group):
        self.shards, self._in_flight, self._group, self._n = {}, [], group, dist.get_world_size(group)
        for p in model.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self._start)

    def _start(self, p: nn.Parameter) -> None:
        gradient, p.grad = p.grad, None
        self._in_flight.append((p, gradient, dist.all_reduce(gradient, group=self._group, async_op=True)))
        if len(self._in_flight) > IN_FLIGHT:
            self._keep_shard()

    def _keep_shard(self) -> None:
        p, gradient, work = self._in_flight.pop(0)
        work.wait()
        padded = F.pad(gradient.flatten(), (0, -p.numel() % self._n))
        shard = padded.view(self._n, -1)[dist.get_rank(self._group)] / self._n
        self.shards[p] = self.shards[p] + shard if p in self.shards else shard

    def finish(self) -> None:
        while self._in_flight:
            self._keep_shard()


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """trainer = fn(module, buckets, optimizer class, group, lr=…); steps of `micro` backward passes each → the parameters.

    Marks what each backward pass leaves behind; what is held in the end beside the module, the shards and their state;
    and, where the case asks for it, which modules are taken though they must not be.
    """
    model = build(inputs["model"], inputs["seed"])
    if inputs["model"] == "linear":
        model.weight.data = model.weight.data.T.contiguous().T  # as a layer has it whose weight came transposed
    weigh_at_gradients(model, inputs)
    start = held_before(inputs)
    given = parameters(model)  # these very tensors
    buckets = Buckets(model, group)
    trainer = _made(fn, model, buckets, inputs, group)
    optimizer = trainer.optimizer
    scheduler = StepLR(optimizer, 1, gamma=inputs["gamma"])
    for number, (x, y) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True), 1):
        begun = held_bytes()
        with span("backward"):
            (loss_rows(model(x), y).mean() / inputs["micro"]).backward()
        buckets.finish()
        mark(HELD, phase=WAITING, bytes=settled_bytes(begun, _room(model, buckets)))
        if number % inputs["micro"] == 0:
            for _ in range(1 + (number // inputs["micro"] in inputs["twice"])):
                trainer.step()
            if number // inputs["micro"] not in inputs["kept"]:
                trainer.zero_grad()
            scheduler.step()
    weigh(inputs, END)
    mark(STEPPED_IN, dtypes=_dtypes(optimizer))
    own = _bytes_of(optimizer)
    mark(HELD, phase=AFTER, bytes=settled_bytes(start, own) - own)
    if inputs["model"] == "linear":
        _offer(fn, inputs, group)
    return Held(given, model, trainer)


def _made(fn: Callable, model: nn.Module, buckets: Buckets, inputs: dict[str, Any], group) -> Any:
    """Without a group where it is the world."""
    of_group = () if group is dist.group.WORLD else (group,)
    return fn(model, buckets, OPTIMIZERS[inputs["optimizer"]], *of_group, lr=inputs["lr"], **inputs["options"])


def _room(model: nn.Module, buckets: Buckets) -> int:
    """For the shards, and for the largest gradient twice: on its way, and not yet let go of by the transport."""
    return sum(shard.nbytes for shard in buckets.shards.values()) + 2 * max(p.nbytes for p in model.parameters())


def _bytes_of(optimizer: torch.optim.Optimizer) -> int:
    """What it steps on, and its state."""
    return state_bytes(optimizer) + sum(tensor.nbytes for tensor in _stepped_on(optimizer))


def _stepped_on(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for one in optimizer.param_groups for p in one["params"]]


def _dtypes(optimizer: torch.optim.Optimizer) -> list[str]:
    return sorted({str(p.dtype).removeprefix("torch.") for p in _stepped_on(optimizer)})


def _offer(fn: Callable, inputs: dict[str, Any], group) -> None:
    """One number of 16 bits, of which most ranks have padding alone; then two modules that a ValueError should answer."""
    rank = dist.get_rank(group)
    number = same_start(lambda: nn.Linear(1, 1, bias=False), inputs["seed"]).bfloat16()
    mark(OF_16_BITS, dtypes=_dtypes(_made(fn, number, Buckets(number, group), inputs, group).optimizer))
    offers = {NOTHING: build(inputs["model"], inputs["seed"]).requires_grad_(False),
              UNEQUAL: build(inputs["model"], inputs["seed"] + rank)}
    mark(ACCEPTED, what=accepted({what: partial(_made, fn, module, Buckets(module, group), inputs, group)
                                  for what, module in offers.items()}))
