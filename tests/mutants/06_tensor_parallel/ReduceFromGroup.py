"""Wrong functions g."""

import torch
import torch.distributed as dist

from tests.mutants import mutant

from . import right


class _Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return right.Reduce.forward(ctx, x, group)

    @staticmethod
    def backward(ctx, dy):
        return dy, None


def _summed(x, group):
    x = x.clone()
    dist.all_reduce(x, group=group)
    return x


@mutant("f and g swapped")
class Swapped(_Right):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x * 1

    @staticmethod
    def backward(ctx, dy):
        return _summed(dy, ctx.group), None


@mutant("all-reduced both ways")
class BothWays(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _summed(dy, ctx.group), None


@mutant("not summed")
class Identity(_Right):
    @staticmethod
    def forward(ctx, x, group):
        return x * 1


@mutant("mean")
class Averages(_Right):
    @staticmethod
    def forward(ctx, x, group):
        return _summed(x, group) / dist.get_world_size(group)


@mutant("gradient times n")
class Multiplies(_Right):
    @staticmethod
    def backward(ctx, dy):
        return dy * dist.get_world_size(ctx.group), None


@mutant("gradient divided")
class Divides(_Right):
    @staticmethod
    def backward(ctx, dy):
        return dy / dist.get_world_size(ctx.group), None


@mutant("input changed")
class InPlace(_Right):
    @staticmethod
    def forward(ctx, x, group):
        dist.all_reduce(x, group=group)
        return x.clone()


@mutant("too few gradients")
class ReturnsOne(_Right):
    @staticmethod
    def backward(ctx, dy):
        return dy


@mutant("group ignored")
class WholeWorld(_Right):
    @staticmethod
    def forward(ctx, x, group):
        return _summed(x, None)


@mutant("library call")
class Gathers(_Right):
    @staticmethod
    def forward(ctx, x, group):
        x = x.contiguous()
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x, group=group)
        return torch.stack(parts).sum(0)


@mutant("missing wait")
class DoesNotWait(_Right):
    @staticmethod
    def forward(ctx, x, group):
        y = x.clone()
        ctx.work = dist.all_reduce(y, group=group, async_op=True)
        return y


@mutant("communicates in backward")
class AlsoBackward(_Right):
    @staticmethod
    def backward(ctx, dy):
        _summed(dy, ctx.group)
        return dy, None


@mutant("too many bytes")
class InFloat64(_Right):
    @staticmethod
    def forward(ctx, x, group):
        return _summed(x.double(), group).to(x.dtype)
