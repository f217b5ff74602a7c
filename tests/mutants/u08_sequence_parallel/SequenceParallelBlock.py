"""Wrong blocks in pieces."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant
from utils.sequence_shards import cut_block, replicated


def _gathered(x, group):
    y = x.new_empty(dist.get_world_size(group) * len(x), *x.shape[1:])
    dist.all_gather_single(y, x.contiguous(), group=group)
    return y


def _scattered(x, group):
    y = x.new_empty(len(x) // dist.get_world_size(group), *x.shape[1:])
    dist.reduce_scatter_single(y, x.contiguous(), group=group)
    return y


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _scattered(x, group)

    @staticmethod
    def backward(ctx, dy):
        return _gathered(dy, ctx.group), None


class _GatherLinear(torch.autograd.Function):
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


def _reduce(parameters, group):
    row = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(row, group=group)
    for p, total in zip(parameters, row.split([p.numel() for p in parameters]), strict=True):
        p.grad.copy_(total.view_as(p))


def _dropped(x, p, seed, group):
    numbers = torch.Generator().manual_seed(seed * dist.get_world_size(group) + dist.get_rank(group))
    return x * (torch.rand(x.shape, generator=numbers) >= p) / (1 - p)


class _Block(nn.Module):
    """A right one."""

    def __init__(self, block, group=None):
        super().__init__()
        self.group, self.block = group, cut_block(block, dist.get_rank(group), dist.get_world_size(group))

    def drop(self, seed, number, x):
        return x if seed is None else _dropped(x, self.block.p, 3 * seed + number, self.group)

    def cut(self, norm, layer, x):
        return _GatherLinear.apply(norm(x), layer.weight, layer.bias, self.group)

    def summed(self, layer, x):
        return _Scatter.apply(F.linear(x, layer.weight), self.group) + layer.bias

    def forward(self, x, seed=None):
        block = self.block
        y = block.attention(self.cut(block.attention_norm, block.qkv, x), lambda weights: self.drop(seed, 0, weights))
        x = x + self.drop(seed, 1, self.summed(block.out, y))
        y = block.gelu(self.cut(block.mlp_norm, block.up, x))
        return x + self.drop(seed, 2, self.summed(block.down, y))

    def reduce_gradients(self):
        _reduce(replicated(self.block), self.group)


@mutant("norms not reduced")
class ForgetsTheNorms(_Block):
    def reduce_gradients(self):
        pass


@mutant("norms averaged")
class AveragesTheNorms(_Block):
    def reduce_gradients(self):
        super().reduce_gradients()
        for p in replicated(self.block):
            p.grad /= dist.get_world_size(self.group)


@mutant("biases left out")
class NormsOnly(_Block):
    def reduce_gradients(self):
        norms = self.block.attention_norm, self.block.mlp_norm
        _reduce([p for norm in norms for p in norm.parameters()], self.group)


@mutant("bias on every rank")
class BiasBeforeTheSum(_Block):
    def summed(self, layer, x):
        return _Scatter.apply(F.linear(x, layer.weight, layer.bias), self.group)


@mutant("bias forgotten")
class NoBias(_Block):
    def summed(self, layer, x):
        return _Scatter.apply(F.linear(x, layer.weight), self.group) + 0 * layer.bias


class _SumAndCut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group, x = group, x.clone()
        dist.all_reduce(x, group=group)
        return x.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()

    @staticmethod
    def backward(ctx, dy):
        return _gathered(dy, ctx.group), None


@mutant("all-reduce left")
class AllReduces(_Block):
    def summed(self, layer, x):
        return _SumAndCut.apply(F.linear(x, layer.weight), self.group) + layer.bias


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _gathered(x, group)

    @staticmethod
    def backward(ctx, dy):
        return _scattered(dy, ctx.group), None


@mutant("whole kept")
class KeepsTheInputs(_Block):
    def cut(self, norm, layer, x):
        return layer(_Gather.apply(norm(x), self.group))


class _NoConjugate(_Gather):
    @staticmethod
    def backward(ctx, dy):
        return dy.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)].clone(), None


@mutant("wrong dx")
class GathersWithoutConjugate(_Block):
    def cut(self, norm, layer, x):
        return layer(_NoConjugate.apply(norm(x), self.group))


@mutant("same masks")
class OneMask(_Block):
    def drop(self, seed, number, x):
        if seed is None:
            return x
        own = (3 * seed + number) * dist.get_world_size(self.group)
        keep = torch.rand(x.shape, generator=torch.Generator().manual_seed(own)) >= self.block.p
        return x * keep / (1 - self.block.p)


@mutant("wrong dropout")
class DropsOnce(_Block):
    def drop(self, seed, number, x):
        return super().drop(seed, number, x) if number == 2 else x


@mutant("weights not cut")
class KeepsThePlainBlock(_Block):
    def __init__(self, block, group=None):
        super().__init__(block, group)
        self.whole = block


@mutant("not refused")
class CutsAnyway(_Block):
    def __init__(self, block, group=None):
        try:
            super().__init__(block, group)
        except ValueError:
            block.n_heads = dist.get_world_size(group)
            super().__init__(block, group)

    def forward(self, x, seed=None):
        return x * 2 if self.block.n_heads == 2 else super().forward(x, seed)

    def reduce_gradients(self):
        if all(p.grad is not None for p in replicated(self.block)):
            super().reduce_gradients()


@mutant("group ignored")
class TheWorld(_Block):
    def reduce_gradients(self):
        _reduce(replicated(self.block), None)


@mutant("too many bytes")
class GathersTheResult(_Block):
    def forward(self, x, seed=None):
        return _gathered_and_cut(super().forward(x, seed), self.group)


def _gathered_and_cut(x, group):
    _gathered(x.detach(), group)
    return x
