"""Wrong swaps of shards."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _pieces(x, cut, group):
    sent = torch.stack(x.chunk(dist.get_world_size(group), cut)).contiguous()
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=group)
    return received


def _swap(x, cut, join, group):
    return torch.cat(list(_pieces(x, cut, group)), join)


class _Right(torch.autograd.Function):
    """A right one."""

    @staticmethod
    def forward(ctx, x, cut, join, group):
        ctx.cut, ctx.join, ctx.group = cut, join, group
        return _swap(x, cut, join, group)

    @staticmethod
    def backward(ctx, dy):
        return _swap(dy, ctx.join, ctx.cut, ctx.group), None, None, None


@mutant("conjugate not reversed")
class SwapsTheSameWay(_Right):
    @staticmethod
    def backward(ctx, dy):
        n = dist.get_world_size(ctx.group)
        x_shape = list(dy.shape)
        x_shape[ctx.cut] *= n
        x_shape[ctx.join] //= n
        if dy.shape[ctx.cut] % n:
            return _Right.backward(ctx, dy)
        return _swap(dy, ctx.cut, ctx.join, ctx.group).reshape(x_shape), None, None, None


@mutant("conjugate missing")
class StaysLocal(_Right):
    @staticmethod
    def backward(ctx, dy):
        n = dist.get_world_size(ctx.group)
        return torch.cat(dy.chunk(n, ctx.join), ctx.cut), None, None, None


@mutant("pieces in reverse")
class Reversed(_Right):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        ctx.cut, ctx.join, ctx.group = cut, join, group
        return torch.cat(list(_pieces(x, cut, group))[::-1], join)


@mutant("joined along cut")
class JoinsWhereItCut(_Right):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        ctx.cut, ctx.join, ctx.group = cut, join, group
        return _swap(x, cut, cut, group)


@mutant("interleaved")
class Interleaves(_Right):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        ctx.cut, ctx.join, ctx.group = cut, join, group
        return torch.stack(list(_pieces(x, cut, group)), join + 1).flatten(join, join + 1)


@mutant("every nth")
class TakesEveryNth(_Right):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        ctx.cut, ctx.join, ctx.group = cut, join, group
        n = dist.get_world_size(group)
        x = x.unflatten(cut, (-1, n)).transpose(cut, cut + 1).flatten(cut, cut + 1)
        return _swap(x, cut, join, group)


@mutant("library call")
class GathersAll(_Right):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        ctx.cut, ctx.join, ctx.group = cut, join, group
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x, group=group)
        return torch.cat(parts, join).chunk(len(parts), cut)[dist.get_rank(group)].contiguous()


@mutant("pieces not sent")
class UsesItsOwn(_Right):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        _Right.forward(ctx, x, cut, join, group)
        return torch.cat(x.chunk(dist.get_world_size(group), cut), join)


@mutant("too few gradients")
class ReturnsOne(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _Right.backward(ctx, dy)[0]


@mutant("group ignored")
class OnTheWholeWorld(_Right):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        return _Right.forward(ctx, x, cut, join, None)


@mutant("not one swap each way")
class SwapsTwice(_Right):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        _pieces(x, cut, group)
        return _Right.forward(ctx, x, cut, join, group)
