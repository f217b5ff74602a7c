"""Wrong linear layers in shards."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.mutants import mutant


def _weight(shard_C, n_out, group):
    whole_P = shard_C.new_empty(dist.get_world_size(group) * len(shard_C))
    dist.all_gather_single(whole_P, shard_C, group=group)
    return whole_P[:n_out * n_out].view(n_out, n_out)


def _reduced(dw, shard_C, group):
    n = dist.get_world_size(group)
    dshard_C = torch.empty_like(shard_C)
    dist.reduce_scatter_single(dshard_C, F.pad(dw.flatten(), (0, n * len(shard_C) - dw.numel())), group=group)
    return dshard_C / n


class _Right(torch.autograd.Function):
    """A right one."""

    @staticmethod
    def forward(ctx, x_BI, shard_C, n_out, group):
        ctx.save_for_backward(x_BI, shard_C)
        ctx.n_out, ctx.group = n_out, group
        return x_BI @ _weight(shard_C, n_out, group).T

    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, shard_C = ctx.saved_tensors
        dx_BI = dy_BO @ _weight(shard_C, ctx.n_out, ctx.group)
        return dx_BI, _reduced(dy_BO.T @ x_BI, shard_C, ctx.group), None, None


@mutant("weight kept")
class SavesTheWeight(_Right):
    @staticmethod
    def forward(ctx, x_BI, shard_C, n_out, group):
        weight = _weight(shard_C, n_out, group)
        ctx.save_for_backward(x_BI, shard_C, weight)
        ctx.group = group
        return x_BI @ weight.T

    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, shard_C, weight = ctx.saved_tensors
        return dy_BO @ weight, _reduced(dy_BO.T @ x_BI, shard_C, ctx.group), None, None


@mutant("sum for mean")
class Sums(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        dx, dshard, _, _ = _Right.backward(ctx, dy_BO)
        return dx, dshard * dist.get_world_size(ctx.group), None, None


@mutant("own gradient")
class KeepsItsOwn(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, shard_C = ctx.saved_tensors
        n, r = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        dx_BI = dy_BO @ _weight(shard_C, ctx.n_out, ctx.group)
        dw = (dy_BO.T @ x_BI).flatten()
        return dx_BI, F.pad(dw, (0, n * len(shard_C) - len(dw))).chunk(n)[r].clone(), None, None


@mutant("library call")
class AllReduces(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, shard_C = ctx.saved_tensors
        n, r = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        dw = (dy_BO.T @ x_BI).flatten()
        dist.all_reduce(dw, group=ctx.group)
        dx_BI = dy_BO @ _weight(shard_C, ctx.n_out, ctx.group)
        return dx_BI, F.pad(dw / n, (0, n * len(shard_C) - len(dw))).chunk(n)[r].clone(), None, None


@mutant("padding")
class ForgetsThePadding(_Right):
    @staticmethod
    def forward(ctx, x_BI, shard_C, n_out, group):
        whole_P = shard_C.new_empty(dist.get_world_size(group) * len(shard_C))
        dist.all_gather_single(whole_P, shard_C, group=group)
        ctx.save_for_backward(x_BI, shard_C)
        ctx.n_out, ctx.group = n_out, group
        return x_BI @ whole_P.view(n_out, -1).T


@mutant("wrong output")
class NotTransposed(_Right):
    @staticmethod
    def forward(ctx, x_BI, shard_C, n_out, group):
        _Right.forward(ctx, x_BI, shard_C, n_out, group)
        return x_BI @ _weight(shard_C, n_out, group)


@mutant("wrong dx")
class TransposedInBackward(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, shard_C = ctx.saved_tensors
        dx_BI = dy_BO @ _weight(shard_C, ctx.n_out, ctx.group).T
        return dx_BI, _reduced(dy_BO.T @ x_BI, shard_C, ctx.group), None, None


@mutant("wrong dW")
class GradientTransposed(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, shard_C = ctx.saved_tensors
        dx_BI = dy_BO @ _weight(shard_C, ctx.n_out, ctx.group)
        return dx_BI, _reduced(x_BI.T @ dy_BO, shard_C, ctx.group), None, None


@mutant("too many bytes")
class GathersTwice(_Right):
    @staticmethod
    def forward(ctx, x_BI, shard_C, n_out, group):
        _weight(shard_C, n_out, group)
        return _Right.forward(ctx, x_BI, shard_C, n_out, group)


@mutant("too few gradients")
class ReturnsTwo(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        return _Right.backward(ctx, dy_BO)[:2]
