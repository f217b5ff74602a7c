"""How a rank calls make_tensor_parallel."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from grader.calling.sealing import unseal
from grader.calling.splitting import BACKWARD, FORWARD, WORK, built, make_gpt, mark_parameters
from grader.calling.training import gradients, parameters
from utils.costs.flops import FlopCounter
from utils.models.tiny import next_byte_loss
from utils.trace.memory import held_bytes
from utils.trace.spans import mark, span


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """model = fn(TinyGPT, group), some steps of SGD → parameters at the start and the end, losses, first gradients."""
    before = held_bytes()
    model = built(lambda: fn(make_gpt(inputs), group), inputs["refused"])
    if not isinstance(model, nn.Module):
        return model
    unseal(model, inputs)
    mark_parameters(model, before)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["lr"])
    losses, first = [], {}
    for tokens_BT in inputs["batches"]:
        optimizer.zero_grad()
        counter = FlopCounter()
        with counter, span(FORWARD):
            logits_BTV = model(tokens_BT[:, :-1])
        loss = next_byte_loss(logits_BTV, tokens_BT[:, 1:]).mean()
        with counter, span(BACKWARD):
            loss.backward()
        mark(WORK, count=counter.total)
        losses.append(loss.detach())
        first = first or gradients(model)
        optimizer.step()
    return {"start": start, "losses": losses, "gradients": first, "parameters": parameters(model)}
