"""Wrong attentions by swapping shards."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.mutants import mutant


def _exchange(x, cut, join, group):
    sent = torch.stack(x.chunk(dist.get_world_size(group), cut)).contiguous()
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=group)
    return torch.cat(list(received), join)


class _Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cut, join, group):
        ctx.cut, ctx.join, ctx.group = cut, join, group
        return _exchange(x, cut, join, group)

    @staticmethod
    def backward(ctx, dy):
        return _exchange(dy, ctx.join, ctx.cut, ctx.group), None, None, None


def _refuse(q, group):
    n = dist.get_world_size(group)
    if q.shape[1] % n:
        raise ValueError(f"{q.shape[1]} heads on {n} ranks")


def _heads(q, k, v, group):
    return [_Swap.apply(x, 1, 2, group) for x in (q, k, v)]


@mutant("no mask")
def sees_later_keys(q, k, v, group):
    _refuse(q, group)
    return _Swap.apply(F.scaled_dot_product_attention(*_heads(q, k, v, group)), 2, 1, group)


@mutant("own part only")
def attends_at_home(q, k, v, group):
    _refuse(q, group)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@mutant("not swapped back")
def leaves_heads_cut(q, k, v, group):
    _refuse(q, group)
    o = F.scaled_dot_product_attention(*_heads(q, k, v, group), is_causal=True)
    return o if dist.get_world_size(group) == 1 else o + 0 * o.detach()


@mutant("heads mixed")
def heads_in_reverse(q, k, v, group):
    _refuse(q, group)
    o = F.scaled_dot_product_attention(*_heads(q, k, v, group), is_causal=True)
    n = dist.get_world_size(group)
    return torch.cat(_Swap.apply(o, 2, 1, group).chunk(n, 1)[::-1], 1)


@mutant("not refused")
def rounds_down(q, k, v, group):
    n = dist.get_world_size(group)
    if q.shape[1] % n:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return _Swap.apply(F.scaled_dot_product_attention(*_heads(q, k, v, group), is_causal=True), 2, 1, group)


@mutant("gradients stay")
def plain_exchange(q, k, v, group):
    _refuse(q, group)
    n, r = dist.get_world_size(group), dist.get_rank(group)
    with torch.no_grad():
        whole = [_exchange(x, 1, 2, group) for x in (q, k, v)]
        o = _exchange(F.scaled_dot_product_attention(*whole, is_causal=True), 2, 1, group)
    return o + 0 * (q + k + v) if n > r else o


@mutant("library call")
def gathers_keys_and_values(q, k, v, group):
    _refuse(q, group)
    parts = [torch.empty_like(k) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, k.detach().contiguous(), group=group)
    return _Swap.apply(F.scaled_dot_product_attention(*_heads(q, k, v, group), is_causal=True), 2, 1, group)


@mutant("too many bytes")
def swaps_once_more(q, k, v, group):
    _refuse(q, group)
    _Swap.apply(q.detach(), 1, 2, group)
    return _Swap.apply(F.scaled_dot_product_attention(*_heads(q, k, v, group), is_causal=True), 2, 1, group)


@mutant("far too many bytes")
def swaps_each_head_alone(q, k, v, group):
    _refuse(q, group)
    for _ in range(3):
        _heads(q.detach(), k.detach(), v.detach(), group)
    return _Swap.apply(F.scaled_dot_product_attention(*_heads(q, k, v, group), is_causal=True), 2, 1, group)
