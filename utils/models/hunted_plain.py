"""The programs of the bug hunt as one plain process would run them: what each rank should have noted, by rank.

Each function returns, for every rank, one note a step (see hunted.note): the loss that this rank computes, the gradients and
weights of the parameters that it holds.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.hunted import HIDDEN, IN, OUT, WIDTH, ShardedMLP, Stage, note, small_mlp

Notes = list[dict[str, Any]]
Tensors = dict[str, Tensor]
Losses = Callable[[int], tuple[Tensor, list[Tensor | None]]]  # step -> the loss that is trained, and what each rank notes
Parts = Callable[[Tensors, int], Tensors]  # (all tensors of the model by name, rank) -> the rank's


def trained(model: nn.Module, n_ranks: int, n_steps: int, losses: Losses, lr: float,
            parts: Parts = lambda tensors, rank: tensors) -> list[Notes]:
    """Plain SGD."""
    notes: list[Notes] = [[] for _ in range(n_ranks)]
    for step in range(n_steps):
        model.zero_grad()
        loss, noted = losses(step)
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= lr * p.grad
        whole = note(model, loss)
        for rank, own in enumerate(notes):
            own.append({"loss": None if noted[rank] is None else noted[rank].detach(),
                        **{kind: {name: part.clone() for name, part in parts(whole[kind], rank).items()}
                           for kind in ("gradients", "weights")}})
    return notes


# ── data parallel: shares[rank] is what that rank sees ──


def plain_replicas(shares: Sequence[Sequence[Sequence[Tensor]]], lr: float) -> list[Notes]:
    """shares[rank][step]: [x, y], of equal sizes. The loss that is trained is the mean of all rows."""
    model = small_mlp()

    def losses(step: int) -> tuple[Tensor, list[Tensor]]:
        own = [F.mse_loss(model(x), y) for x, y in (share[step] for share in shares)]
        return torch.stack(own).mean(), own

    return trained(model, len(shares), len(shares[0]), losses, lr)


def plain_micro_batches(shares: Sequence[Sequence[Sequence[Sequence[Tensor]]]], lr: float) -> list[Notes]:
    """shares[rank][step]: micro-batches [x, y], which may differ in size: together they are one batch."""
    joined = [[[torch.cat(parts) for parts in zip(*step, strict=True)] for step in share] for share in shares]
    return plain_replicas(joined, lr)


def plain_shards(shares: Sequence[Sequence[Sequence[Tensor]]], lr: float) -> list[Notes]:
    """As plain_replicas, of the two weights that ShardedMLP has in shards."""
    model = ShardedMLP(0, 1)

    def losses(step: int) -> tuple[Tensor, list[Tensor]]:
        up, down = model.up.view(IN, HIDDEN), model.down.view(HIDDEN, OUT)
        own = [F.mse_loss(torch.tanh(x @ up) @ down, y) for x, y in (share[step] for share in shares)]
        return torch.stack(own).mean(), own

    def parts(tensors: Tensors, rank: int) -> Tensors:
        return {name: whole.chunk(len(shares))[rank] for name, whole in tensors.items()}

    return trained(model, len(shares), len(shares[0]), losses, lr, parts)


# ── a pipeline ──


def plain_pipeline(steps: Sequence[Sequence[Sequence[Tensor]]], lr: float, p: int) -> list[Notes]:
    """steps: [xs, ys] each, lists of micro-batches. All p stages in one process; the last one notes the loss."""
    stages = nn.ModuleList(Stage(rank, p) for rank in range(p))

    def losses(step: int) -> tuple[Tensor, list[Tensor | None]]:
        total = torch.zeros((), dtype=torch.float64)
        for x, y in zip(*steps[step], strict=True):
            for stage in stages:
                x = stage(x)
            total = total + stages[-1].loss(x, y) / len(steps[step][0])
        return total, [None] * (p - 1) + [total]

    def parts(tensors: Tensors, rank: int) -> Tensors:
        whole = {name.partition(".")[2]: tensor for name, tensor in tensors.items()}  # 0.layers.0.weight: layers.0.weight
        return {name: whole[name] for name, _ in stages[rank].named_parameters()}

    return trained(stages, p, len(steps), losses, lr, parts)


# ── batches ──


def shares(n_ranks: int, n_steps: int = 3, rows: int = 4, seed: int = 0) -> list[list[list[Tensor]]]:
    """[rank][step] → [x (rows, I), y (rows, O)]."""
    generator = torch.Generator().manual_seed(seed)
    return [[[_drawn(generator, rows, size) for size in (IN, OUT)] for _ in range(n_steps)] for _ in range(n_ranks)]


def micro_shares(n_ranks: int, sizes: Sequence[int], n_steps: int = 3, seed: int = 0) -> list[list[list[list[Tensor]]]]:
    """[rank][step] → micro-batches [x, y] of these sizes."""
    cuts = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    return [[[[x[a:b], y[a:b]] for a, b in pairwise(cuts)] for x, y in share]
            for share in shares(n_ranks, n_steps, cuts[-1], seed)]


def pipeline_steps(n_micro: int, n_steps: int = 2, rows: int = 2, seed: int = 0) -> list[list[list[Tensor]]]:
    """[step] → [xs, ys], n_micro micro-batches (rows, D) each."""
    generator = torch.Generator().manual_seed(seed)
    return [[[_drawn(generator, rows, WIDTH) for _ in range(n_micro)] for _ in range(2)] for _ in range(n_steps)]


def _drawn(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
