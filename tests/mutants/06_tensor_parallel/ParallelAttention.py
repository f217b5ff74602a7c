"""Wrong attention in parallel."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant

from .right import Copy, Reduce


class _Right(nn.Module):
    """A right one, in pieces that the wrong ones replace."""

    def __init__(self, q, k, v, out, n_heads, n_kv_heads, group=None):
        super().__init__()
        n, r = dist.get_world_size(group), dist.get_rank(group)
        self.check(n_heads, n)
        self.group, self.heads, self.kv_heads = group, n_heads // n, max(1, n_kv_heads // n)
        size, self.all_kv, self.first = q.out_features // n_heads, n_kv_heads, self.first_kv(r, n, n_kv_heads)
        own = [h * size + i for h in self.own_heads(r, n, n_heads) for i in range(size)]
        kv = slice(self.first * size, (self.first + self.kv_heads) * size)
        self.q, self.k, self.v = self.part(q, own), self.part(k, kv), self.part(v, kv)
        self.out = self.part(out, slice(None))
        self.out.weight = nn.Parameter(self.piece(out.weight.data[:, own]))
        if self.sums_kv(n, n_kv_heads):
            for p in (*self.k.parameters(), *self.v.parameters()):
                p.register_hook(self.summed)

    @staticmethod
    def check(n_heads, n):
        if n_heads % n:
            raise ValueError(f"{n_heads} heads, {n} ranks")

    @staticmethod
    def own_heads(r, n, n_heads):
        return range(r * n_heads // n, (r + 1) * n_heads // n)

    @staticmethod
    def first_kv(r, n, n_kv_heads):
        return r * n_kv_heads // n

    @staticmethod
    def piece(weight):
        return weight.clone()

    def part(self, layer, rows):
        own = nn.Linear(1, 1, bias=layer.bias is not None)
        own.weight = nn.Parameter(self.piece(layer.weight.data[rows]))
        if layer.bias is not None:
            own.bias = nn.Parameter(self.piece(layer.bias.data[rows]))
        return own

    @staticmethod
    def sums_kv(n, n_kv_heads):
        return n > n_kv_heads

    def summed(self, gradient):
        slots = gradient.new_zeros(self.all_kv, *gradient.shape)
        slots[self.first] = gradient
        dist.all_reduce(slots, group=self.group)
        return slots[self.first]

    def inputs(self, x):
        return (Copy.apply(x, self.group),) * 3

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def counts(self):
        return self.heads, self.kv_heads, self.kv_heads

    def sum(self, z):
        y = Reduce.apply(z @ self.out.weight.T, self.group)
        return y if self.out.bias is None else y + self.out.bias

    def forward(self, x):
        q, k, v = (layer(one).unflatten(-1, (count, -1)).transpose(1, 2) for layer, one, count in zip(
            (self.q, self.k, self.v), self.inputs(x), self.counts(), strict=True))
        return self.sum(self.attend(q, k, v).transpose(1, 2).flatten(2))


@mutant("sizes not checked")
class RoundsDown(_Right):
    @staticmethod
    def check(n_heads, n):
        pass


@mutant("heads in turn")
class InTurn(_Right):
    @staticmethod
    def own_heads(r, n, n_heads):
        return range(r, n_heads, n)


@mutant("wrong kv head")
class KvHeadsInTurn(_Right):
    @staticmethod
    def first_kv(r, n, n_kv_heads):
        return r % n_kv_heads if n > n_kv_heads else r * n_kv_heads // n


@mutant("kv not summed")
class KeepsItsOwnKvGradient(_Right):
    @staticmethod
    def sums_kv(n, n_kv_heads):
        return False


@mutant("kv summed for nothing")
class SumsAllKv(_Right):
    @staticmethod
    def sums_kv(n, n_kv_heads):
        return True

    def summed(self, gradient):
        if dist.get_world_size(self.group) > self.all_kv:
            return super().summed(gradient)
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=self.group)
        return gradient


@mutant("kv heads in turn")
class Repeats(_Right):
    def attend(self, q, k, v):
        times = q.shape[1] // k.shape[1]
        return F.scaled_dot_product_attention(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1), is_causal=True)


@mutant("not causal")
class SeesTheFuture(_Right):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@mutant("f missing")
class WithoutF(_Right):
    def inputs(self, x):
        return x, x, x


@mutant("y not summed")
class WithoutG(_Right):
    def sum(self, z):
        return F.linear(z, self.out.weight, self.out.bias)


@mutant("bias n times")
class BiasBefore(_Right):
    def sum(self, z):
        return Reduce.apply(F.linear(z, self.out.weight, self.out.bias), self.group)


@mutant("not one all-reduce backward")
class ThreeTimesF(_Right):
    def inputs(self, x):
        return tuple(Copy.apply(x, self.group) for _ in range(3))


@mutant("library call")
class GathersHeads(_Right):
    def sum(self, z):
        parts = [torch.empty_like(z) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, z.detach().contiguous(), group=self.group)
        return super().sum(z)


@mutant("whole weights kept alive")
class KeepsViews(_Right):
    @staticmethod
    def piece(weight):
        return weight

    def part(self, layer, rows):
        if isinstance(rows, list):
            rows = slice(rows[0], rows[-1] + 1)
        return super().part(layer, rows)


@mutant("wrong y")
class ScalesByTheWidth(_Right):
    def attend(self, q, k, v):
        scale = (q.shape[1] * q.shape[3]) ** -0.5
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True, scale=scale)


@mutant("layer missing")
class OtherNames(_Right):
    def __init__(self, *args):
        super().__init__(*args)
        self.queries = self.q
        del self.q
