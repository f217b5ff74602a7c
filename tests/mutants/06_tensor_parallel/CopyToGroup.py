"""Wrong functions f."""

import torch
import torch.distributed as dist

from tests.mutants import mutant

from . import right


class _Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x * 1

    @staticmethod
    def backward(ctx, dy):
        return right.Copy.backward(ctx, dy)


def _summed(x, group):
    x = x.clone()
    dist.all_reduce(x, group=group)
    return x


@mutant("f and g swapped")
class Swapped(_Right):
    @staticmethod
    def forward(ctx, x, group):
        return _summed(x, group)

    @staticmethod
    def backward(ctx, dy):
        return dy, None


@mutant("all-reduced both ways")
class BothWays(_Right):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _summed(x, group)


@mutant("gradient not summed")
class Identity(_Right):
    @staticmethod
    def backward(ctx, dy):
        return dy, None


@mutant("mean")
class Averages(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _summed(dy, ctx.group) / dist.get_world_size(ctx.group), None


@mutant("times n")
class Multiplies(_Right):
    @staticmethod
    def backward(ctx, dy):
        return dy * dist.get_world_size(ctx.group), None


@mutant("input changed")
class InPlace(_Right):
    @staticmethod
    def backward(ctx, dy):
        dist.all_reduce(dy, group=ctx.group)
        return dy, None


@mutant("group not kept")
class ForgetsTheGroup(_Right):
    @staticmethod
    def forward(ctx, x, group):
        return x * 1


@mutant("too few gradients")
class ReturnsOne(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _summed(dy, ctx.group)


@mutant("group ignored")
class WholeWorld(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _summed(dy, None), None


@mutant("library call")
class Gathers(_Right):
    @staticmethod
    def backward(ctx, dy):
        dy = dy.contiguous()
        parts = [torch.empty_like(dy) for _ in range(dist.get_world_size(ctx.group))]
        dist.all_gather(parts, dy, group=ctx.group)
        return torch.stack(parts).sum(0), None


@mutant("missing wait")
class DoesNotWait(_Right):
    @staticmethod
    def backward(ctx, dy):
        dx = dy.clone()
        ctx.work = dist.all_reduce(dx, group=ctx.group, async_op=True)
        return dx, None


@mutant("communicates in forward")
class AlsoForward(_Right):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        _summed(x, group)
        return x * 1


@mutant("too many bytes")
class InFloat64(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _summed(dy.double(), ctx.group).to(dy.dtype), None
