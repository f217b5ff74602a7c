"""Wrong dropout in parallel."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant


class _Right(nn.Module):
    """A right one, in pieces that the wrong ones replace."""

    def __init__(self, p, seed, split, group=None):
        super().__init__()
        n, r = dist.get_world_size(group), dist.get_rank(group)
        self.p, self.calls = p, 0
        self.seed = self.seed_of(seed, r, n, split)
        self.generator = torch.Generator().manual_seed(self.seed)

    @staticmethod
    def seed_of(seed, r, n, split):
        return seed * (n + 1) + (1 + r if split else 0)

    def keep(self, x):
        return torch.rand(x.shape, generator=self.generator) >= self.p

    def scaled(self, x, keep):
        return x * keep / (1 - self.p)

    def forward(self, x):
        return self.scaled(x, self.keep(x)) if self.training else x


@mutant("same mask where split")
class OneSeedForAll(_Right):
    @staticmethod
    def seed_of(seed, r, n, split):
        return seed


@mutant("masks differ where replicated")
class RankInEverySeed(_Right):
    @staticmethod
    def seed_of(seed, r, n, split):
        return seed * n + r


@mutant("same mask every call")
class SeedsInForward(_Right):
    def keep(self, x):
        self.generator.manual_seed(self.seed)
        return super().keep(x)


@mutant("global state disturbed")
class SeedsTheGlobalState(_Right):
    def keep(self, x):
        self.calls += 1
        torch.manual_seed(1000 * self.seed + self.calls)
        return torch.rand(x.shape) >= self.p


@mutant("seeds collide")
class SeedPlusRank(_Right):
    @staticmethod
    def seed_of(seed, r, n, split):
        return seed + 1000003 + r if split else seed


class _Redraws(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, module):
        ctx.module = module
        return x * module.keep(x) / (1 - module.p)

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.module.keep(dy) / (1 - ctx.module.p), None


@mutant("another mask in backward")
class RedrawsInBackward(_Right):
    def forward(self, x):
        return _Redraws.apply(x, self) if self.training else x


@mutant("wrong rate")
class KeepsP(_Right):
    def keep(self, x):
        return torch.rand(x.shape, generator=self.generator) < self.p * 0.999


@mutant("not scaled")
class NotScaled(_Right):
    def scaled(self, x, keep):
        return x * keep


@mutant("drops in eval")
class DropsAlways(_Right):
    def forward(self, x):
        return self.scaled(x, self.keep(x))


@mutant("not reproducible")
class SeedsByTheClock(_Right):
    """Alike on all ranks where replicated, but never twice the same."""

    made = 0

    def __init__(self, p, seed, split, group=None):
        super().__init__(p, seed, split, group)
        SeedsByTheClock.made += 1
        self.generator.manual_seed(self.seed * 1009 + SeedsByTheClock.made)


@mutant("communicates")
class BroadcastsTheMask(_Right):
    def __init__(self, p, seed, split, group=None):
        super().__init__(p, seed, split, group)
        self.group, self.split = group, split

    def keep(self, x):
        keep = super().keep(x).to(x.dtype)
        if not self.split:
            dist.broadcast(keep, group=self.group, group_src=0)
        return keep


@mutant("dtype changed")
class FloatMask(_Right):
    def scaled(self, x, keep):
        return F.dropout(x, 0.0) * (keep / torch.tensor([1 - self.p])).double()
