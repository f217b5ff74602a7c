"""Wrong forward passes with prefetching."""

import torch.distributed as dist

from tests.mutants import mutant


def _start(shard, group, async_op=True):
    whole_P = shard.new_empty(dist.get_world_size(group) * len(shard))
    return whole_P, dist.all_gather_single(whole_P, shard, group=group, async_op=async_op)


def _run(x, shards, compute, group, ahead, wait=True, keep=None):
    """The right loop, `ahead` layers ahead."""
    under_way, started = [], 0
    for number in range(len(shards)):
        while started < min(number + 1 + ahead, len(shards)):
            under_way.append(_start(shards[started], group))
            started += 1
        whole_P, work = under_way.pop(0)
        if wait:
            work.wait()
        if keep is not None:
            keep.append(whole_P)
        x = compute(number, whole_P, x)
    return x


@mutant("not prefetched")
def one_after_the_other(x_BD, shards, compute, depth, group):
    return _run(x_BD, shards, compute, group, 0)


@mutant("too far ahead")
def all_at_once(x_BD, shards, compute, depth, group):
    return _run(x_BD, shards, compute, group, len(shards))


@mutant("never freed")
def keeps_them(x_BD, shards, compute, depth, group):
    return _run(x_BD, shards, compute, group, depth, keep=[])


@mutant("waited too early")
def blocks(x_BD, shards, compute, depth, group):
    rows, started = [], 0
    for number in range(len(shards)):
        while started < min(number + 1 + depth, len(shards)):
            rows.append(_start(shards[started], group, async_op=False)[0])
            started += 1
        whole_P = rows.pop(0)
        x_BD = compute(number, whole_P, x_BD)
    return x_BD


@mutant("missing wait")
def never_waits(x_BD, shards, compute, depth, group):
    return _run(x_BD, shards, compute, group, depth, wait=False)


@mutant("beyond the end")
def starts_what_is_not_there(x_BD, shards, compute, depth, group):
    under_way = [_start(shards[number], group) for number in range(depth + 1)]
    for number in range(len(shards)):
        whole_P, work = under_way.pop(0)
        work.wait()
        if number + depth + 1 < len(shards):
            under_way.append(_start(shards[number + depth + 1], group))
        x_BD = compute(number, whole_P, x_BD)
    return x_BD


@mutant("last layers left out")
def forgets_the_last(x_BD, shards, compute, depth, group):
    return _run(x_BD, shards[:-1], compute, group, depth)


@mutant("wrong order")
def backwards(x_BD, shards, compute, depth, group):
    last = len(shards) - 1
    return _run(x_BD, shards[::-1], lambda number, row, x: compute(last - number, row, x), group, depth)


@mutant("too many bytes")
def gathers_twice(x_BD, shards, compute, depth, group):
    x_BD = _run(x_BD, shards, compute, group, depth)
    for shard in shards:
        _start(shard, group, async_op=False)
    return x_BD


@mutant("library call")
def all_reduces(x_BD, shards, compute, depth, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    for number, shard in enumerate(shards):
        whole_P = shard.new_zeros(n * len(shard))
        whole_P[r * len(shard):(r + 1) * len(shard)] = shard
        dist.all_reduce(whole_P, group=group)
        x_BD = compute(number, whole_P, x_BD)
    return x_BD


@mutant("group ignored")
def in_the_world(x_BD, shards, compute, depth, group):
    return _run(x_BD, shards, compute, dist.group.WORLD, depth)
