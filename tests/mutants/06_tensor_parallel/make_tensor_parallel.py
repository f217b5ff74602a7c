"""Wrong GPTs in parallel."""

import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant

from .right import Copy, Reduce


class _Linear(nn.Module):
    """Column-parallel (dim 0) or row-parallel (dim 1)."""

    def __init__(self, linear, group, dim, *, f=True, bias_once=True, own=torch.clone):
        super().__init__()
        n, r = dist.get_world_size(group), dist.get_rank(group)
        self.group, self.dim, self.f, self.bias_once = group, dim, f, bias_once
        self.weight = nn.Parameter(own(linear.weight.data.chunk(n, dim)[r]))
        self.bias = nn.Parameter(linear.bias.data.chunk(n)[r].clone() if dim == 0 else linear.bias.data.clone())

    def forward(self, x):
        if self.dim == 0:
            return F.linear(Copy.apply(x, self.group) if self.f else x, self.weight, self.bias)
        if not self.bias_once:
            return Reduce.apply(F.linear(x, self.weight, self.bias), self.group)
        return Reduce.apply(F.linear(x, self.weight), self.group) + self.bias


def _by_heads(qkv, n):
    for p in qkv.parameters():
        p.data = p.data.unflatten(0, (3, n, -1)).transpose(0, 1).flatten(0, 2).clone()


def _right(model, group, *, check=True, by_heads=True, heads=True, mlp=True, row=None, **column):
    n = dist.get_world_size(group)
    for block in model.blocks:
        if check and block.n_heads % n:
            raise ValueError(f"{block.n_heads} heads, {n} ranks")
        if by_heads:
            _by_heads(block.qkv, n)
        block.n_heads = block.n_heads // n if heads else block.n_heads
        block.qkv, block.out = _Linear(block.qkv, group, 0, **column), _Linear(block.out, group, 1, **(row or {}))
        if mlp:
            block.up, block.down = _Linear(block.up, group, 0, **column), _Linear(block.down, group, 1, **(row or {}))
    return model


@mutant("sizes not checked")
def rounds_down(model, group):
    return _right(model, group, check=False)


@mutant("qkv cut through")
def cuts_neighbouring_rows(model, group):
    return _right(model, group, by_heads=False)


@mutant("heads not divided")
def keeps_the_number_of_heads(model, group):
    return _right(model, group, heads=False)


@mutant("dx not summed")
def without_f(model, group):
    return _right(model, group, f=False)


@mutant("bias n times")
def bias_before_the_sum(model, group):
    return _right(model, group, row={"bias_once": False})


@mutant("not split")
def attention_only(model, group):
    return _right(model, group, mlp=False)


@mutant("whole weights kept alive")
def keeps_views(model, group):
    return _right(model, group, own=lambda part: part)


@mutant("nothing returned")
def returns_nothing(model, group):
    _right(model, group)


@mutant("other names")
def unties(model, group):
    model.head = copy.deepcopy(model.head)
    return _right(model, group)


@mutant("wrong part")
def heads_in_turn(model, group):
    n = dist.get_world_size(group)
    for block in model.blocks:
        for p in block.qkv.parameters():
            p.data = p.data.unflatten(0, (-1, n)).transpose(0, 1).flatten(0, 1).clone()
    return _right(model, group, by_heads=False)


class _TwiceForQkv(_Linear):
    def forward(self, x):
        parts = zip(self.weight.chunk(3), self.bias.chunk(3), strict=True)
        return torch.cat([F.linear(Copy.apply(x, self.group), weight, bias) for weight, bias in parts], -1)


@mutant("not two all-reduces a layer, backward")
def an_f_for_each(model, group):
    model = _right(model, group)
    for block in model.blocks:
        block.qkv.__class__ = _TwiceForQkv
    return model


@mutant("library call")
def gathers_weights(model, group):
    model = _right(model, group)

    def gather(module, args):
        part = module.weight.data.contiguous()
        dist.all_gather([torch.empty_like(part) for _ in range(dist.get_world_size(group))], part, group=group)

    for block in model.blocks:
        block.up.register_forward_pre_hook(gather)
    return model
