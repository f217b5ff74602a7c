"""Wrong linear layers on pieces of a sequence."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

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
    def forward(ctx, x, weight, bias, group):
        ctx.save_for_backward(x, weight)
        ctx.group = group
        return F.linear(_gathered(x, group), weight, bias)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dw = dy.flatten(0, 1).T @ _gathered(x, ctx.group).flatten(0, 1)
        return _scattered(dy @ weight, ctx.group), dw, dy.sum((0, 1)), None


@mutant("whole kept")
class SavesTheWhole(_Right):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        whole = _gathered(x, group)
        ctx.save_for_backward(whole, weight)
        ctx.group = group
        return F.linear(whole, weight, bias)

    @staticmethod
    def backward(ctx, dy):
        whole, weight = ctx.saved_tensors
        return _scattered(dy @ weight, ctx.group), dy.flatten(0, 1).T @ whole.flatten(0, 1), dy.sum((0, 1)), None


@mutant("library call")
class AllReducesDx(_Right):
    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dx = dy @ weight
        dist.all_reduce(dx, group=ctx.group)
        dx = dx.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)].clone()
        return dx, dy.flatten(0, 1).T @ _gathered(x, ctx.group).flatten(0, 1), dy.sum((0, 1)), None


@mutant("gradient not summed")
class CutsDx(_Right):
    @staticmethod
    def backward(ctx, dy):
        _, dw, db, _ = _Right.backward(ctx, dy)
        dx = dy @ ctx.saved_tensors[1]
        return dx.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)].clone(), dw, db, None


@mutant("mean for sum")
class AveragesDx(_Right):
    @staticmethod
    def backward(ctx, dy):
        dx, dw, db, _ = _Right.backward(ctx, dy)
        return dx / dist.get_world_size(ctx.group), dw, db, None


@mutant("dW of the piece")
class UsesThePiece(_Right):
    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        rows = dy.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)]
        return _scattered(dy @ weight, ctx.group), rows.flatten(0, 1).T @ x.flatten(0, 1), dy.sum((0, 1)), None


@mutant("dW divided")
class DividesDw(_Right):
    @staticmethod
    def backward(ctx, dy):
        dx, dw, db, _ = _Right.backward(ctx, dy)
        return dx, dw / dist.get_world_size(ctx.group), db, None


@mutant("bias forgotten")
class NoBias(_Right):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        return _Right.forward(ctx, x, weight, None, group)


@mutant("wrong db")
class MeansDb(_Right):
    @staticmethod
    def backward(ctx, dy):
        dx, dw, _, _ = _Right.backward(ctx, dy)
        return dx, dw, dy.mean((0, 1)), None


@mutant("too few gradients")
class ForgetsTheGroup(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _Right.backward(ctx, dy)[:3]


@mutant("group ignored")
class TheWorld(_Right):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        return _Right.forward(ctx, x, weight, bias, None)


@mutant("too many bytes")
class GathersAgain(_Right):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        _gathered(x, group)
        return _Right.forward(ctx, x, weight, bias, group)
