"""How a rank calls SequenceParallelGPT."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from grader.calling.letting_go import settled_bytes
from grader.calling.sealing import unseal
from grader.calling.sequences import (
    BACKWARD,
    FORWARD,
    KEPT,
    NUMBERS,
    REDUCE,
    gradients_by_name,
    make_gpt,
    plain_name,
)
from grader.calling.splitting import WORK, built
from grader.evidence.case import REFUSED
from utils.costs.flops import FlopCounter
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """model = cls(plain, group), trained → the losses, the gradients of the first step and the parameters at the end.

    A step: loss(tokens, targets), backward, reduce_gradients() and SGD. All have the plain model's names.
    """
    plain = make_gpt(inputs)
    names = [name for name, _ in plain.named_parameters()]
    trained = built(lambda: _trained(cls, plain, names, inputs, group), inputs["refused"])
    if REFUSED in trained:
        return trained
    model, losses, first = trained["model"], trained["losses"], trained["gradients"]
    named = {plain_name(name): p.detach() for name, p in model.named_parameters()}
    return {"losses": losses, "gradients": first, "parameters": {name: named[name] for name in names if name in named}}


def _trained(cls: Callable, plain: nn.Module, names: list[str], inputs: dict[str, Any], group) -> dict[str, Any]:
    model = cls(plain, group)
    unseal(model, inputs, plain_name)
    losses, first = [], {}
    mark(NUMBERS, count=sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["lr"])
    for tokens, targets in zip(inputs["tokens"], inputs["targets"], strict=True):
        optimizer.zero_grad()
        counter, start = FlopCounter(), held_bytes()
        with counter, span(FORWARD):
            loss = model.loss(tokens, targets)
        mark(KEPT, bytes=settled_bytes(start))
        with counter, span(BACKWARD):
            loss.backward()
        mark(WORK, count=counter.total)
        with span(REDUCE):
            model.reduce_gradients()
        first = first or {name: g for name, g in gradients_by_name(model).items() if name in names}
        optimizer.step()
        losses.append(loss.detach())
    return {"model": model, "losses": losses, "gradients": first}
