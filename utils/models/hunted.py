"""What the broken programs of the bug hunt are made of: models, parts of them, and the notes that a program takes.

All of this is right: the bugs are in the programs. Everything is in float64 and drawn from fixed seeds.
Shapes: B rows, I features in, H hidden, O out.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from utils.models.hunted_stages import KEPT, PASS, WIDTH, Group, Passes, Stage
from utils.models.tiny import same_start

__all__ = ["HIDDEN", "IN", "KEPT", "OUT", "PASS", "SGD", "WIDTH", "Gather", "Passes", "ShardedMLP", "SmallMLP", "Stage",
           "mean_shard", "note", "small_mlp"]

IN, HIDDEN, OUT = 3, 4, 2


def note(model: nn.Module, loss: Tensor | None) -> dict[str, Any]:
    """A program's note after an optimizer's step: "loss", and by parameter the "gradients" it used and the new "weights"."""
    parameters = dict(model.named_parameters())
    return {"loss": None if loss is None else torch.as_tensor(loss).detach().double().clone().reshape(()),
            "gradients": {name: None if p.grad is None else p.grad.clone() for name, p in parameters.items()},
            "weights": {name: p.detach().clone() for name, p in parameters.items()}}


class SGD:
    """p −= lr · p.grad: torch.optim.SGD without its options, whose import takes longer than these programs run."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float):
        self._parameters, self._lr = list(parameters), lr

    def zero_grad(self) -> None:
        """No gradient is left."""
        for p in self._parameters:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """A parameter without a gradient stays."""
        for p in self._parameters:
            if p.grad is not None:
                p -= self._lr * p.grad


# ── data parallel ──


class SmallMLP(nn.Module):
    """head(tanh(body(x))), drawn from torch's random state as it is.  Shapes: (B, I) → (B, O)."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(IN, HIDDEN).double(), nn.Linear(HIDDEN, OUT).double()

    def forward(self, x_BI: Tensor) -> Tensor:
        return self.head(torch.tanh(self.body(x_BI)))


def small_mlp() -> SmallMLP:
    """The same model on every rank."""
    return same_start(SmallMLP)


# ── weights in shards ──


class ShardedMLP(nn.Module):
    """Rank r's n-th of two flat weights, `up` (I, H) and `down` (H, O)."""

    SHAPES = ((IN, HIDDEN), (HIDDEN, OUT))

    def __init__(self, rank: int, n: int):
        super().__init__()
        whole = small_mlp()
        self.up = nn.Parameter(whole.body.weight.detach().T.flatten().chunk(n)[rank].clone())
        self.down = nn.Parameter(whole.head.weight.detach().T.flatten().chunk(n)[rank].clone())


class Gather:
    """A whole weight on its way: begun at once, of the shards as they are now. wait(*shape) → the weight, to be trained."""

    def __init__(self, shard: Tensor, group: Group):
        self._sent = shard.detach().clone()
        self._parts = [torch.empty_like(self._sent) for _ in range(dist.get_world_size(group))]
        self._work = dist.all_gather(self._parts, self._sent, group=group, async_op=True)

    def wait(self, *shape: int) -> Tensor:
        self._work.wait()
        return torch.cat(self._parts).view(shape).requires_grad_()


def mean_shard(gradient: Tensor, group: Group) -> Tensor:
    """The own shard of the mean of all ranks' gradients."""
    total, n = gradient.detach().flatten().clone(), dist.get_world_size(group)
    dist.all_reduce(total, group=group)
    return total.chunk(n)[dist.get_rank(group)].clone() / n
