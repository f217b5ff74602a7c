"""The pipeline among the programs of the bug hunt: its stages, and their passes. All of it is right.

Shapes: B rows of a micro-batch, D width.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.tiny import same_start
from utils.trace.spans import mark

WIDTH = 4
KEPT, PASS = "micro-batches kept", "a pass of the stage"
Group = dist.ProcessGroup | None


def checksum(tensors: Iterable[Tensor]) -> float | None:
    """The sum of all their numbers; None where they have none, on simulated ranks."""
    try:
        return sum(tensor.detach().sum().item() for tensor in tensors)
    except RuntimeError:
        return None


class Stage(nn.Module):
    """Layer r of p: tanh(x·W + b). Its parameters have the names that they have in the whole.  Shapes: (B, D) → (B, D)."""

    def __init__(self, rank: int, p: int):
        super().__init__()
        self.layers = nn.ModuleDict({str(rank): same_start(nn.Linear, rank, in_features=WIDTH, out_features=WIDTH).double()})

    def forward(self, x_BD: Tensor) -> Tensor:
        for layer in self.layers.values():
            x_BD = torch.tanh(layer(x_BD))
        return x_BD

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The mean of a micro-batch."""
        return F.mse_loss(output, y)


class Passes:
    """One stage's passes through the micro-batches of a step, each kind in order. Each waits for what it needs.

    xs, ys: micro-batches of one size; the first stage reads xs, the last one ys.
    """

    def __init__(self, stage: Stage, xs: list[Tensor], ys: list[Tensor], group: Group):
        self.stage, self.xs, self.ys, self.group = stage, xs, ys, group
        self.rank, self.last = dist.get_rank(group), dist.get_world_size(group) - 1
        self._kept: deque[tuple[Tensor, Tensor]] = deque()
        self._losses: list[Tensor] = []
        self._sending: list[tuple[Any, Tensor]] = []
        self._done = 0

    def forward(self) -> None:
        """The next micro-batch: from the stage before, to the stage behind."""
        x = self.xs[self._done] if self.rank == 0 else self._received(self.rank - 1).requires_grad_()
        output = self.stage(x)
        if self.rank == self.last:
            output = self.stage.loss(output, self.ys[self._done]) / len(self.xs)
            self._losses.append(output.detach())
        else:
            self._send(output.detach(), self.rank + 1)
        self._kept.append((x, output))
        self._done += 1
        self._mark("F")
        mark(KEPT, count=len(self._kept))

    def backward(self) -> None:
        """The oldest micro-batch that is kept: its gradient from the stage behind, on to the stage before."""
        if not self._kept:
            raise RuntimeError("backward() without a micro-batch that went forward and waits for its gradient")
        x, output = self._kept.popleft()
        if self.rank < self.last:
            output = (output * self._received(self.rank + 1)).sum()  # whose gradient is the one that came
        output.backward()
        if self.rank:
            self._send(x.grad, self.rank - 1)
        self._mark("B")

    def _mark(self, kind: str) -> None:
        mark(PASS, kind=kind, weights=checksum(self.stage.parameters()))

    def finish(self) -> Tensor | None:
        """Wait until all is sent → the loss on the last stage, None elsewhere."""
        for work, _ in self._sending:
            work.wait()
        return sum(self._losses, torch.zeros((), dtype=torch.float64)) if self.rank == self.last else None

    def _received(self, source: int) -> Tensor:
        buffer = torch.empty(len(self.xs[0]), WIDTH, dtype=torch.float64)
        dist.recv(buffer, group=self.group, group_src=source)
        return buffer

    def _send(self, tensor: Tensor, target: int) -> None:
        self._sending.append((dist.isend(tensor, group=self.group, group_dst=target), tensor))
