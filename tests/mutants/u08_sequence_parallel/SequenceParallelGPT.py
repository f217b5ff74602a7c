"""Wrong GPTs in pieces."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant
from utils.sequence_shards import cut_block, piece, replicated


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


class _GPT(nn.Module):
    """A right one."""

    block = _Block

    def __init__(self, model, group=None):
        super().__init__()
        self.group = group
        self.embedding, self.positions, self.norm, self.head = model.embedding, model.positions, model.norm, model.head
        self.blocks = nn.ModuleList(self.block(block, group) for block in model.blocks)

    def own(self, x):
        return piece(x, dist.get_rank(self.group), dist.get_world_size(self.group))

    def own_positions(self, length):
        return self.own(torch.arange(length))

    def rows(self, tokens, targets):
        x = self.embedding(self.own(tokens)) + self.positions(self.own_positions(len(tokens)))[:, None]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), self.own(targets).flatten(), reduction="none")

    def loss(self, tokens, targets):
        return self.rows(tokens, targets).sum() / tokens.numel()

    def outer(self):
        return [p for layer in (self.embedding, self.positions, self.norm, self.head) for p in layer.parameters()]

    def inner(self):
        return [p for block in self.blocks for p in replicated(block.block)]

    def reduce_gradients(self):
        _reduce(self.outer() + self.inner(), self.group)


@mutant("mean of the piece")
class OwnMean(_GPT):
    def loss(self, tokens, targets):
        return self.rows(tokens, targets).mean()


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        whole = x.new_empty(dist.get_world_size(group))
        dist.all_gather_single(whole, x.view(1), group=group)
        return whole.sum()

    @staticmethod
    def backward(ctx, dy):
        return dy, None


@mutant("whole loss")
class WholeLoss(_GPT):
    def loss(self, tokens, targets):
        return _Sum.apply(super().loss(tokens, targets), self.group)


@mutant("all-reduce left")
class SumsTheLoss(_GPT):
    def loss(self, tokens, targets):
        loss = super().loss(tokens, targets)
        dist.all_reduce(loss.detach().clone(), group=self.group)
        return loss


@mutant("positions from 0")
class LocalPositions(_GPT):
    def own_positions(self, length):
        return torch.arange(length // dist.get_world_size(self.group))


@mutant("blocks not reduced")
class OuterOnly(_GPT):
    def reduce_gradients(self):
        _reduce(self.outer(), self.group)


@mutant("embedding not reduced")
class InnerOnly(_GPT):
    def reduce_gradients(self):
        _reduce(self.inner(), self.group)


@mutant("replicated gradients")
class Averages(_GPT):
    def reduce_gradients(self):
        super().reduce_gradients()
        for p in self.outer() + self.inner():
            p.grad /= dist.get_world_size(self.group)


@mutant("gradients scaled")
class AveragesAll(_GPT):
    def reduce_gradients(self):
        super().reduce_gradients()
        for p in self.parameters():
            p.grad /= dist.get_world_size(self.group)


@mutant("not refused")
class CutsOff(_GPT):
    def loss(self, tokens, targets):
        length = len(tokens) - len(tokens) % dist.get_world_size(self.group)
        return super().loss(tokens[:length], targets[:length])


@mutant("weights not cut")
class KeepsThePlainModel(_GPT):
    def __init__(self, model, group=None):
        super().__init__(model, group)
        self.plain = model.blocks


@mutant("group ignored")
class TheWorld(_GPT):
    def reduce_gradients(self):
        _reduce(self.outer() + self.inner(), None)


@mutant("too many bytes")
class GathersLogits(_GPT):
    def rows(self, tokens, targets):
        rows = super().rows(tokens, targets)
        _gathered(torch.zeros(len(rows), 256, dtype=rows.dtype), self.group)
        return rows
