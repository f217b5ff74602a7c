"""Wrong ways to compute during an all-reduce."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


@mutant("blocking call")
def blocks(x, compute, group):
    total = x.clone()
    dist.all_reduce(total, group=group)
    return total, compute()


@mutant("computed first")
def computes_before_it_starts(x, compute, group):
    total = x.clone()
    y = compute()
    work = dist.all_reduce(total, group=group, async_op=True)
    work.wait()
    return total, y


@mutant("waited too early")
def waits_at_once(x, compute, group):
    total = x.clone()
    work = dist.all_reduce(total, group=group, async_op=True)
    work.wait()
    return total, compute()


@mutant("compute once")
def computes_twice(x, compute, group):
    total = x.clone()
    work = dist.all_reduce(total, group=group, async_op=True)
    compute()
    work.wait()
    return total, compute()


@mutant("missing wait")
def never_waits(x, compute, group):
    total = x.clone()
    dist.all_reduce(total, group=group, async_op=True)
    return total, compute()


@mutant("own x returned")
def returns_the_copy_from_before(x, compute, group):
    total = x.clone()
    work = dist.all_reduce(x, group=group, async_op=True)
    y = compute()
    work.wait()
    return total, y


@mutant("mean for sum")
def divides_by_the_ranks(x, compute, group):
    total = x.clone()
    work = dist.all_reduce(total, group=group, async_op=True)
    y = compute()
    work.wait()
    return total / dist.get_world_size(group), y


@mutant("group ignored")
def uses_the_world(x, compute, group):
    total = x.clone()
    work = dist.all_reduce(total, async_op=True)
    y = compute()
    work.wait()
    return total, y


@mutant("library call")
def gathers_and_adds(x, compute, group):
    rows = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    work = dist.all_gather(rows, x, group=group, async_op=True)
    y = compute()
    work.wait()
    return torch.stack(rows).sum(0), y
