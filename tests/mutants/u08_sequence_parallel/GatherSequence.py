"""Wrong gathers of a sequence."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _gathered(x, group):
    y = x.new_empty(dist.get_world_size(group) * len(x), *x.shape[1:])
    dist.all_gather_single(y, x.contiguous(), group=group)
    return y


def _scattered(x, group):
    y = x.new_empty(len(x) // dist.get_world_size(group), *x.shape[1:])
    dist.reduce_scatter_single(y, x.contiguous(), group=group)
    return y


class _Right(torch.autograd.Function):
    """A right one."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _gathered(x, group)

    @staticmethod
    def backward(ctx, dy):
        return _scattered(dy, ctx.group), None


@mutant("gradient not summed")
class CutsTheGradient(_Right):
    @staticmethod
    def backward(ctx, dy):
        return dy.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)], None


@mutant("library call")
class AllReducesAndCuts(_Right):
    @staticmethod
    def backward(ctx, dy):
        dy = dy.clone()
        dist.all_reduce(dy, group=ctx.group)
        return dy.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)], None


@mutant("mean for sum")
class Averages(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _scattered(dy, ctx.group) / dist.get_world_size(ctx.group), None


@mutant("pieces reversed")
class Reverses(_Right):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return torch.cat(_gathered(x, group).chunk(dist.get_world_size(group))[::-1])

    @staticmethod
    def backward(ctx, dy):
        return _scattered(torch.cat(dy.chunk(dist.get_world_size(ctx.group))[::-1]), ctx.group), None


@mutant("gathered along the batch")
class AlongTheBatch(_Right):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return torch.cat(_gathered(x, group).chunk(dist.get_world_size(group)), dim=1)

    @staticmethod
    def backward(ctx, dy):
        return _scattered(torch.cat(dy.chunk(dist.get_world_size(ctx.group), dim=1)), ctx.group), None


@mutant("too few gradients")
class OneGradient(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _scattered(dy, ctx.group)


@mutant("group ignored")
class TheWorld(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _scattered(dy, None), None


@mutant("missing wait")
class DoesNotWait(_Right):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        y = x.new_empty(dist.get_world_size(group) * len(x), *x.shape[1:])
        dist.all_gather_single(y, x.contiguous(), group=group, async_op=True)
        return y


@mutant("too many bytes")
class GathersTwice(_Right):
    @staticmethod
    def forward(ctx, x, group):
        _gathered(x, group)
        return _Right.forward(ctx, x, group)
