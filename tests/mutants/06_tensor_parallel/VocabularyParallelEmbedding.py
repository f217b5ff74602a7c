"""Wrong embeddings split by rows."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant

from .right import Reduce


class _ReduceBoth(Reduce):
    """All-reduce in both directions."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return Reduce.forward(ctx, x, group)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(dy, group=ctx.group)
        return dy, None


class _Right(nn.Module):
    """A right one, in pieces that the wrong ones replace."""

    def __init__(self, embedding, group=None):
        super().__init__()
        n, r = dist.get_world_size(group), dist.get_rank(group)
        self.check(embedding.num_embeddings, n)
        self.group, self.rows = group, embedding.num_embeddings // n
        self.first = r * self.rows
        self.weight = nn.Parameter(self.part(embedding.weight.data, r, n))

    @staticmethod
    def check(vocabulary, n):
        if vocabulary % n:
            raise ValueError(f"{vocabulary} rows, {n} ranks")

    def part(self, table, r, n):
        return table[self.first:self.first + self.rows].clone()

    def own(self, ids):
        return (ids >= self.first) & (ids < self.first + self.rows)

    def look_up(self, ids):
        own = self.own(ids)
        return F.embedding((ids - self.first) * own, self.weight) * own[..., None]

    def forward(self, ids):
        return Reduce.apply(self.look_up(ids), self.group)


@mutant("ids not masked")
class LooksUpEverything(_Right):
    def look_up(self, ids):
        return F.embedding(ids % self.rows, self.weight)


@mutant("wrong y")
class ForgetsTheFirstRow(_Right):
    def own(self, ids):
        return (ids > self.first) & (ids < self.first + self.rows)


@mutant("ids not shifted")
class NotShifted(_Right):
    def look_up(self, ids):
        own = self.own(ids)
        return F.embedding(ids * own, self.weight) * own[..., None]


@mutant("foreign ids in gradient")
class MasksTheNumbersOnly(_Right):
    def look_up(self, ids):
        own = self.own(ids)
        y = F.embedding((ids - self.first) * own, self.weight)
        y.data[~own] = 0
        return y


@mutant("gradient n times")
class BothWays(_Right):
    def forward(self, ids):
        return _ReduceBoth.apply(self.look_up(ids), self.group)


@mutant("all-reduce backward")
class BothWaysAndDivides(_Right):
    def forward(self, ids):
        y, n = self.look_up(ids), dist.get_world_size(self.group)
        y.register_hook(lambda dy: dy / n)
        return _ReduceBoth.apply(y, self.group)


@mutant("y not summed")
class NotSummed(_Right):
    def forward(self, ids):
        return self.look_up(ids)


@mutant("library call")
class GathersTheTable(_Right):
    def forward(self, ids):
        parts = [torch.empty_like(self.weight.data) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, self.weight.data, group=self.group)
        parts[dist.get_rank(self.group)] = self.weight
        return F.embedding(ids, torch.cat(parts))


@mutant("whole weights kept alive")
class KeepsAView(_Right):
    def part(self, table, r, n):
        return table[self.first:self.first + self.rows]


@mutant("rows in turn")
class RowsInTurn(_Right):
    def part(self, table, r, n):
        return table[r::n].clone()


@mutant("sizes not checked")
class RoundsDown(_Right):
    @staticmethod
    def check(vocabulary, n):
        pass
