"""What the broken programs of the bug hunt are made of: models, parts of them, and the notes that a program takes.

All of this is right: the bugs are in the programs. Everything is in float64 and drawn from fixed seeds.
Shapes: B rows, I features in, H hidden, O out; S positions of a sequence, P a rank's piece of it, D width, V vocabulary.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.hunted_stages import KEPT, PASS, VOCABULARY, WIDTH, Group, Passes, Stage, TextStage, checksum, ends_group
from utils.models.tiny import same_start
from utils.trace.spans import mark

__all__ = ["GATHERED", "HIDDEN", "IN", "KEPT", "OUT", "PASS", "SGD", "VOCABULARY", "WIDTH", "Gather", "MLPShard", "Passes",
           "SequenceMLP", "ShardedMLP", "SmallMLP", "Stage", "TextStage", "ends_group", "gathered", "mean_shard",
           "mesh_groups", "note", "scattered", "small_mlp", "summed"]

IN, HIDDEN, OUT = 3, 4, 2
GATHERED = "a piece of the sequence is gathered"


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
    """head(dropout(tanh(body(x)))), drawn from torch's random state as it is.  Shapes: (B, I) → (B, O)."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.body, self.head, self.dropout = nn.Linear(IN, HIDDEN).double(), nn.Linear(HIDDEN, OUT).double(), dropout

    def forward(self, x_BI: Tensor) -> Tensor:
        return self.head(F.dropout(torch.tanh(self.body(x_BI)), self.dropout))


def small_mlp() -> SmallMLP:
    """The same model on every rank, without dropout."""
    return same_start(SmallMLP)


# ── tensor parallel, on a mesh ──


def mesh_groups(tp: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    """(data group, tensor group) of this rank: of every tp neighbours who share a model, and of those with the same part."""
    world, rank = dist.get_world_size(), dist.get_rank()
    data = [dist.new_group(list(range(first, world, tp))) for first in range(tp)]
    tensor = [dist.new_group(list(range(first, first + tp))) for first in range(0, world, tp)]
    return data[rank % tp], tensor[rank // tp]


class MLPShard(nn.Module):
    """Rank r's part of down(tanh(up(x))): rows of up, columns of down. The parts' outputs add up to the whole one's."""

    def __init__(self, rank: int, n: int):
        super().__init__()
        whole = small_mlp()
        self.up = nn.Parameter(whole.body.weight.detach().chunk(n)[rank].clone())
        self.down = nn.Parameter(whole.head.weight.detach().chunk(n, 1)[rank].clone())

    def forward(self, x_BI: Tensor) -> Tensor:
        return torch.tanh(x_BI @ self.up.T) @ self.down.T


def summed(part: Tensor, group: Group) -> Tensor:
    """The sum over ranks of what each has a part of; a gradient comes back to each part as it is."""
    total = part.detach().clone()
    dist.all_reduce(total, group=group)
    return part + (total - part).detach()


# ── sequence parallel ──


class SequenceMLP(nn.Module):
    """A LayerNorm that every rank has whole, and rank r's columns of `up` and rows of `down`."""

    def __init__(self, rank: int, n: int):
        super().__init__()
        generator, default = torch.Generator().manual_seed(0), torch.get_default_device()
        up, down = (torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu").to(default) / 2
                    for shape in ((WIDTH, 2 * WIDTH), (2 * WIDTH, WIDTH)))
        self.norm = nn.LayerNorm(WIDTH).double()
        self.up = nn.Parameter(up.chunk(n, 1)[rank].clone())
        self.down = nn.Parameter(down.chunk(n)[rank].clone())


def gathered(x_PD: Tensor, group: Group) -> Tensor:
    """The whole sequence from its pieces; backward adds up what all ranks send back, and keeps the own piece of it."""
    mark(GATHERED, total=checksum([x_PD]))
    return _Exchange.apply(x_PD, _joined, _summed_piece, group)


def scattered(x_SD: Tensor, group: Group) -> Tensor:
    """The own piece of the sum over ranks; backward gathers."""
    return _Exchange.apply(x_SD, _summed_piece, _joined, group)


class _Exchange(torch.autograd.Function):
    """One exchange forward and its mirror image backward."""

    @staticmethod
    def forward(ctx, x: Tensor, there, back, group: Group) -> Tensor:
        ctx.back, ctx.group = back, group
        return there(x, group)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.back(gradient, ctx.group), None, None, None


def _joined(piece: Tensor, group: Group) -> Tensor:
    """By an all-reduce among zeros, which makes no difference to these few numbers."""
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    whole = torch.cat([piece.detach() * (other == rank) for other in range(n)])
    dist.all_reduce(whole, group=group)
    return whole


def _summed_piece(whole: Tensor, group: Group) -> Tensor:
    total = whole.detach().clone()
    dist.all_reduce(total, group=group)
    return total.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()


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
    return _summed_piece(gradient.flatten(), group) / dist.get_world_size(group)
