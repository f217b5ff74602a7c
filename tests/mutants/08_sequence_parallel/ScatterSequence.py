"""Wrong ways from partial sums to a piece of the sum."""

import torch
import torch.distributed as dist

from tests.mutants import mutant

from .right import gathered, scattered


def _divides(x, group):
    n = dist.get_world_size(group)
    if len(x) % n:
        raise ValueError(f"{n} ranks do not divide {len(x)} positions")


class _Right(torch.autograd.Function):
    """A right one."""

    @staticmethod
    def forward(ctx, x, group):
        _divides(x, group)
        ctx.group = group
        return scattered(x, group)

    @staticmethod
    def backward(ctx, dy):
        return gathered(dy, ctx.group), None


@mutant("not reduced")
class CutsItsOwn(_Right):
    @staticmethod
    def forward(ctx, x, group):
        _divides(x, group)
        ctx.group = group
        return x.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()


@mutant("library call")
class AllReducesAndCuts(_Right):
    @staticmethod
    def forward(ctx, x, group):
        _divides(x, group)
        ctx.group, x = group, x.clone()
        dist.all_reduce(x, group=group)
        return x.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()


@mutant("mean for sum")
class Averages(_Right):
    @staticmethod
    def forward(ctx, x, group):
        return _Right.forward(ctx, x, group) / dist.get_world_size(group)


@mutant("gradient not gathered")
class NoConjugate(_Right):
    @staticmethod
    def backward(ctx, dy):
        n, r = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        return torch.cat([dy if i == r else torch.zeros_like(dy) for i in range(n)]), None


@mutant("gradient divided")
class DividesTheGradient(_Right):
    @staticmethod
    def backward(ctx, dy):
        return gathered(dy, ctx.group) / dist.get_world_size(ctx.group), None


@mutant("pieces reversed")
class Reverses(_Right):
    @staticmethod
    def forward(ctx, x, group):
        _divides(x, group)
        ctx.group = group
        return scattered(torch.cat(x.chunk(dist.get_world_size(group))[::-1]), group)


@mutant("not refused")
class CutsOff(_Right):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group, ctx.left = group, len(x) % dist.get_world_size(group)
        return scattered(x[:len(x) - ctx.left], group)

    @staticmethod
    def backward(ctx, dy):
        dx = gathered(dy, ctx.group)
        return torch.cat([dx, dx.new_zeros(ctx.left, *dx.shape[1:])]), None


@mutant("group ignored")
class TheWorld(_Right):
    @staticmethod
    def backward(ctx, dy):
        return gathered(dy, None), None


@mutant("too few gradients")
class OneGradient(_Right):
    @staticmethod
    def backward(ctx, dy):
        return gathered(dy, ctx.group)
