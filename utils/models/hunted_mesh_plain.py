"""The blind hunt's training run in one plain process: what each rank of the mesh should note (see hunted.note)."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.models.hunted_mesh import (
    AS_GIVEN,
    IGNORED,
    N_EXPERTS,
    N_LAYERS,
    Settings,
    Shape,
    drawn_texts,
    normed,
    own_weights,
    places,
    whole_weights,
)

Tensors = dict[str, Tensor]


@dataclass
class Router:
    """Of S rows: the expert, its gate, and the balance loss as each row's share of it.  Shapes: (S,) each."""

    expert_S: Tensor
    gate_S: Tensor
    balance_S: Tensor


def routed(h_SD: Tensor, router_DE: Tensor) -> Router:
    chances_SE = torch.softmax(h_SD @ router_DE, dim=1)
    gate_S, expert_S = chances_SE.max(1)
    fraction_E = F.one_hot(expert_S, N_EXPERTS).double().mean(0)
    return Router(expert_S, gate_S, N_EXPERTS * chances_SE @ fraction_E / len(h_SD))


def of_experts(x_SD: Tensor, layer: Tensors) -> tuple[Tensor, Router]:
    """What the experts add to the rows (S, D)."""
    h_SD = normed(x_SD, layer["experts_norm"])
    router = routed(h_SD, layer["router"])
    rows = [torch.tanh(h_D @ layer["expert_up"][expert]) @ layer["expert_down"][expert]
            for h_D, expert in zip(h_SD, router.expert_S.tolist(), strict=True)]
    return torch.stack(rows) * router.gate_S[:, None], router


def norm_of(gradients: Tensors) -> Tensor:
    """Of the gradients of a whole model."""
    return torch.stack([(gradient ** 2).sum() for gradient in gradients.values()]).sum().sqrt()


def lr_at(step: int, settings: Settings) -> float:
    """The learning rate of a step, from 0."""
    return settings.lr * min(1.0, (step + 1) / settings.warm_up)


@dataclass
class _Run:
    """The model, and what each rank draws its masks from."""

    shape: Shape
    settings: Settings
    weights: Tensors = field(default_factory=dict)
    masks: dict[int, torch.Generator] = field(default_factory=dict)

    def loss(self, texts: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Of a batch: the loss, and each rank's share of it."""
        n_replicas, shares = self.shape[0], [torch.zeros((), dtype=torch.float64) for _ in self.masks]
        n_targets = sum(int((targets != IGNORED).sum()) for _, targets in texts)
        for replica in range(n_replicas):
            own = texts[replica::n_replicas]
            micro_batches = [own[first:first + self.settings.micro] for first in range(0, len(own), self.settings.micro)]
            for micro_batch in micro_batches:
                self._micro_batch(replica, torch.cat(micro_batch, 1), n_targets, len(micro_batches), shares)
        return torch.stack(shares).sum(), shares

    def _micro_batch(self, replica: int, rows: Tensor, n_targets: int, n_micro: int, shares: list[Tensor]) -> None:
        (n_replicas, n_stages, n_tensor), table = self.shape, self.weights["table"]
        ranks = [[rank for rank in self.masks if places(rank, self.shape)["data"] == replica
                  and places(rank, self.shape)["pipeline"] == stage] for stage in range(n_stages)]
        x_SD = table[rows[0]]
        for number in range(N_LAYERS):
            layer = {name.split(".")[2]: weight for name, weight in self.weights.items()
                     if name.startswith(f"layers.{number}.")}
            of_stage = ranks[number * n_stages // N_LAYERS]
            y_SD = torch.tanh(normed(x_SD, layer["dense_norm"]) @ layer["up"]) @ layer["down"]
            x_SD = x_SD + self._dropped(y_SD, of_stage)
            y_SD, router = of_experts(x_SD, layer)
            x_SD = x_SD + y_SD
            for rank, balance in zip(of_stage, router.balance_S.chunk(n_tensor), strict=True):
                shares[rank] = shares[rank] + self.settings.balance * balance.sum() / (n_micro * n_replicas)
        losses_S = F.cross_entropy(x_SD @ table.T, rows[1], ignore_index=IGNORED, reduction="none") / n_targets
        for rank, losses in zip(ranks[-1], losses_S.chunk(n_tensor), strict=True):
            shares[rank] = shares[rank] + losses.sum()

    def _dropped(self, x_SD: Tensor, ranks: list[int]) -> Tensor:
        """Each rank of the tensor axis draws the masks of its rows."""
        p = self.settings.dropout
        keep = [torch.rand(part.shape, generator=self.masks[rank], dtype=part.dtype) >= p
                for rank, part in zip(ranks, x_SD.chunk(len(ranks)), strict=True)]
        return x_SD * torch.cat(keep) / (1 - p)


def plain_run(shape: Shape, settings: Settings = AS_GIVEN, n_steps: int = 4) -> list[list[dict]]:
    """[rank][step] → note. A restart makes no difference."""
    texts, n_ranks = drawn_texts(settings.seed), shape[0] * shape[1] * shape[2]
    weights = {name: weight.requires_grad_() for name, weight in whole_weights(settings.seed).items()}
    masks = {rank: torch.Generator().manual_seed(settings.seed + 1 + rank) for rank in range(n_ranks)}
    run = _Run(tuple(shape), settings, weights, masks)
    velocity = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    notes: list[list[dict]] = [[] for _ in range(n_ranks)]
    for step in range(n_steps):
        batch = [texts[(step * settings.batch + number) % len(texts)] for number in range(settings.batch)]
        loss, shares = run.loss(batch)
        gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
        scale = (settings.max_norm / norm_of(gradients)).clamp(max=1.0)
        gradients = {name: gradient * scale for name, gradient in gradients.items()}
        with torch.no_grad():
            for name, weight in weights.items():
                velocity[name].mul_(settings.momentum).add_(gradients[name])
                weight -= lr_at(step, settings) * velocity[name]
        for rank, own in enumerate(notes):
            parts = {name: weight.detach() for name, weight in weights.items()}
            own.append({"loss": shares[rank].detach().clone(), "gradients": own_weights(gradients, rank, shape),
                        "weights": own_weights(parts, rank, shape)})
    return notes
