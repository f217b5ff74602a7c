"""Wrong linear layers on pieces of a sequence."""

import torch.distributed as dist
import torch.nn.functional as F

from tests.mutants import mutant

from .right import GatherLinear, gathered, scattered


@mutant("whole kept")
class SavesTheWhole(GatherLinear):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        whole = gathered(x, group)
        ctx.save_for_backward(whole, weight)
        ctx.group = group
        return F.linear(whole, weight, bias)

    @staticmethod
    def backward(ctx, dy):
        whole, weight = ctx.saved_tensors
        return scattered(dy @ weight, ctx.group), dy.flatten(0, 1).T @ whole.flatten(0, 1), dy.sum((0, 1)), None


@mutant("library call")
class AllReducesDx(GatherLinear):
    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dx = dy @ weight
        dist.all_reduce(dx, group=ctx.group)
        dx = dx.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)].clone()
        return dx, dy.flatten(0, 1).T @ gathered(x, ctx.group).flatten(0, 1), dy.sum((0, 1)), None


@mutant("gradient not summed")
class CutsDx(GatherLinear):
    @staticmethod
    def backward(ctx, dy):
        _, dw, db, _ = GatherLinear.backward(ctx, dy)
        dx = dy @ ctx.saved_tensors[1]
        return dx.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)].clone(), dw, db, None


@mutant("mean for sum")
class AveragesDx(GatherLinear):
    @staticmethod
    def backward(ctx, dy):
        dx, dw, db, _ = GatherLinear.backward(ctx, dy)
        return dx / dist.get_world_size(ctx.group), dw, db, None


@mutant("dW of the piece")
class UsesThePiece(GatherLinear):
    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        rows = dy.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)]
        return scattered(dy @ weight, ctx.group), rows.flatten(0, 1).T @ x.flatten(0, 1), dy.sum((0, 1)), None


@mutant("dW divided")
class DividesDw(GatherLinear):
    @staticmethod
    def backward(ctx, dy):
        dx, dw, db, _ = GatherLinear.backward(ctx, dy)
        return dx, dw / dist.get_world_size(ctx.group), db, None


@mutant("bias forgotten")
class NoBias(GatherLinear):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        return GatherLinear.forward(ctx, x, weight, None, group)


@mutant("wrong db")
class MeansDb(GatherLinear):
    @staticmethod
    def backward(ctx, dy):
        dx, dw, _, _ = GatherLinear.backward(ctx, dy)
        return dx, dw, dy.mean((0, 1)), None


@mutant("too few gradients")
class ForgetsTheGroup(GatherLinear):
    @staticmethod
    def backward(ctx, dy):
        return GatherLinear.backward(ctx, dy)[:3]


@mutant("group ignored")
class TheWorld(GatherLinear):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        return GatherLinear.forward(ctx, x, weight, bias, None)


@mutant("too many bytes")
class GathersAgain(GatherLinear):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        gathered(x, group)
        return GatherLinear.forward(ctx, x, weight, bias, group)
