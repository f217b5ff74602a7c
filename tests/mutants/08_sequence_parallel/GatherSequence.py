"""Wrong gathers of a sequence."""

import torch
import torch.distributed as dist

from tests.mutants import mutant

from .right import Gather, gathered, scattered


@mutant("gradient not summed")
class CutsTheGradient(Gather):
    @staticmethod
    def backward(ctx, dy):
        return dy.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)], None


@mutant("library call")
class AllReducesAndCuts(Gather):
    @staticmethod
    def backward(ctx, dy):
        dy = dy.clone()
        dist.all_reduce(dy, group=ctx.group)
        return dy.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)], None


@mutant("mean for sum")
class Averages(Gather):
    @staticmethod
    def backward(ctx, dy):
        return scattered(dy, ctx.group) / dist.get_world_size(ctx.group), None


@mutant("pieces reversed")
class Reverses(Gather):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return torch.cat(gathered(x, group).chunk(dist.get_world_size(group))[::-1])

    @staticmethod
    def backward(ctx, dy):
        return scattered(torch.cat(dy.chunk(dist.get_world_size(ctx.group))[::-1]), ctx.group), None


@mutant("gathered along the batch")
class AlongTheBatch(Gather):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return torch.cat(gathered(x, group).chunk(dist.get_world_size(group)), dim=1)

    @staticmethod
    def backward(ctx, dy):
        return scattered(torch.cat(dy.chunk(dist.get_world_size(ctx.group), dim=1)), ctx.group), None


@mutant("too few gradients")
class OneGradient(Gather):
    @staticmethod
    def backward(ctx, dy):
        return scattered(dy, ctx.group)


@mutant("group ignored")
class TheWorld(Gather):
    @staticmethod
    def backward(ctx, dy):
        return scattered(dy, None), None


@mutant("missing wait")
class DoesNotWait(Gather):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        y = x.new_empty(dist.get_world_size(group) * len(x), *x.shape[1:])
        dist.all_gather_single(y, x.contiguous(), group=group, async_op=True)
        return y


@mutant("too many bytes")
class GathersTwice(Gather):
    @staticmethod
    def forward(ctx, x, group):
        gathered(x, group)
        return Gather.forward(ctx, x, group)
