"""Wrong GPTs in pieces."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant
from utils.models.sequence_shards import piece, replicated

from .right import Block, gathered, reduce


class _GPT(nn.Module):
    """A right one."""

    block = Block

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
        reduce(self.outer() + self.inner(), self.group)


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
        reduce(self.outer(), self.group)


@mutant("embedding not reduced")
class InnerOnly(_GPT):
    def reduce_gradients(self):
        reduce(self.inner(), self.group)


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
        reduce(self.outer() + self.inner(), None)


@mutant("too many bytes")
class GathersLogits(_GPT):
    def rows(self, tokens, targets):
        rows = super().rows(tokens, targets)
        gathered(torch.zeros(len(rows), 256, dtype=rows.dtype), self.group)
        return rows
