"""Wrong blocks in pieces."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.mutants import mutant
from utils.models.sequence_shards import replicated

from .right import Block, Gather, Scatter, gathered, reduce


@mutant("norms not reduced")
class ForgetsTheNorms(Block):
    def reduce_gradients(self):
        pass


@mutant("norms averaged")
class AveragesTheNorms(Block):
    def reduce_gradients(self):
        super().reduce_gradients()
        for p in replicated(self.block):
            p.grad /= dist.get_world_size(self.group)


@mutant("biases left out")
class NormsOnly(Block):
    def reduce_gradients(self):
        norms = self.block.attention_norm, self.block.mlp_norm
        reduce([p for norm in norms for p in norm.parameters()], self.group)


@mutant("bias on every rank")
class BiasBeforeTheSum(Block):
    def summed(self, layer, x):
        return Scatter.apply(F.linear(x, layer.weight, layer.bias), self.group)


@mutant("bias forgotten")
class NoBias(Block):
    def summed(self, layer, x):
        return Scatter.apply(F.linear(x, layer.weight), self.group) + 0 * layer.bias


class _SumAndCut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group, x = group, x.clone()
        dist.all_reduce(x, group=group)
        return x.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()

    @staticmethod
    def backward(ctx, dy):
        return gathered(dy, ctx.group), None


@mutant("all-reduce left")
class AllReduces(Block):
    def summed(self, layer, x):
        return _SumAndCut.apply(F.linear(x, layer.weight), self.group) + layer.bias


@mutant("whole kept")
class KeepsTheInputs(Block):
    def cut(self, norm, layer, x):
        return layer(Gather.apply(norm(x), self.group))


class _NoConjugate(Gather):
    @staticmethod
    def backward(ctx, dy):
        return dy.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)].clone(), None


@mutant("wrong dx")
class GathersWithoutConjugate(Block):
    def cut(self, norm, layer, x):
        return layer(_NoConjugate.apply(norm(x), self.group))


@mutant("same masks")
class OneMask(Block):
    def drop(self, seed, number, x):
        if seed is None:
            return x
        own = (3 * seed + number) * dist.get_world_size(self.group)
        keep = torch.rand(x.shape, generator=torch.Generator().manual_seed(own)) >= self.block.p
        return x * keep / (1 - self.block.p)


@mutant("wrong dropout")
class DropsOnce(Block):
    def drop(self, seed, number, x):
        return super().drop(seed, number, x) if number == 2 else x


@mutant("weights not cut")
class KeepsThePlainBlock(Block):
    def __init__(self, block, group=None):
        super().__init__(block, group)
        self.whole = block


@mutant("not refused")
class CutsAnyway(Block):
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
class TheWorld(Block):
    def reduce_gradients(self):
        reduce(replicated(self.block), None)


@mutant("too many bytes")
class GathersTheResult(Block):
    def forward(self, x, seed=None):
        return _gathered_and_cut(super().forward(x, seed), self.group)


def _gathered_and_cut(x, group):
    gathered(x.detach(), group)
    return x
