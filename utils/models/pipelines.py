"""Stages for pipelines: the tiny GPT cut into pieces, and a stage on a device that takes its time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from utils.models.tiny import TinyGPT
from utils.trace.spans import span


class GPTStage(nn.Module):
    """Some blocks of a TinyGPT; the first stage has the embeddings too, the last one the norm and the head.

    Parameters keep the names that they have in the whole model. Shapes: the first stage takes bytes (B, T), the others
    (B, T, D); the last one gives logits (B, T, V), the others (B, T, D).
    """

    def __init__(self, model: TinyGPT, layers: Sequence[int]):
        super().__init__()
        if 0 in layers:
            self.embedding, self.positions = model.embedding, model.positions
        self.blocks = nn.ModuleDict({str(layer): model.blocks[layer] for layer in layers})
        if len(model.blocks) - 1 in layers:
            self.norm, self.head = model.norm, model.head

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self, "embedding"):
            x = self.embedding(x) + self.positions(torch.arange(x.shape[1]))
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.norm(x)) if hasattr(self, "head") else x

    @property
    def tied_weight(self) -> nn.Parameter | None:
        """The weight of the embedding or of the head; None on a stage that has neither."""
        part = getattr(self, "embedding", getattr(self, "head", None))
        return None if part is None else part.weight


class Delayed(nn.Module):
    """A module on a device of its own: each pass takes so many seconds longer, while the processor is free for others.

    So a pipeline keeps its shape on a machine with fewer cores than ranks. Each pass is a span in the trace, "F3" or "B3".
    """

    def __init__(self, module: nn.Module, forward_s: float, backward_s: float):
        super().__init__()
        self.module, self.forward_s, self.backward_s, self.count = module, forward_s, backward_s, 0

    def forward(self, x: Tensor) -> Tensor:
        micro, self.count = self.count, self.count + 1
        with span(f"F{micro}"):
            time.sleep(self.forward_s)
            return _Delay.apply(self.module(x), f"B{micro}", self.backward_s)


class _Delay(torch.autograd.Function):
    """Does nothing forward, and sleeps backward."""

    @staticmethod
    def forward(ctx, y: Tensor, name: str, seconds: float) -> Tensor:
        ctx.name, ctx.seconds = name, seconds
        return y.view_as(y)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        with span(ctx.name):
            time.sleep(ctx.seconds)
        return gradient, None, None
