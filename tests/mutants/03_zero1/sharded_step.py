"""Wrong steps of ZeRO-1."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _reduce(gradient_P, shard_C, group, divide=True):
    mine = torch.empty_like(shard_C)
    dist.reduce_scatter_single(mine, gradient_P, group=group)
    return mine / dist.get_world_size(group) if divide else mine


def _gather(flat_P, shard_C, group):
    dist.all_gather_single(flat_P, shard_C.detach(), group=group)


@mutant("sum for mean")
def sums(flat_P, gradient_P, shard_C, optimizer, group):
    shard_C.grad = _reduce(gradient_P, shard_C, group, divide=False)
    optimizer.step()
    _gather(flat_P, shard_C, group)


@mutant("own gradient")
def ignores_the_others(flat_P, gradient_P, shard_C, optimizer, group):
    shard_C.grad = gradient_P.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()
    optimizer.step()
    _gather(flat_P, shard_C, group)


@mutant("not updated")
def never_steps(flat_P, gradient_P, shard_C, optimizer, group):
    shard_C.grad = _reduce(gradient_P, shard_C, group)
    _gather(flat_P, shard_C, group)


@mutant("parameters not gathered")
def gathers_gradients(flat_P, gradient_P, shard_C, optimizer, group):
    shard_C.grad = _reduce(gradient_P, shard_C, group)
    optimizer.step()
    dist.all_gather_single(gradient_P, shard_C.grad, group=group)


@mutant("other dtype")
def in_float32(flat_P, gradient_P, shard_C, optimizer, group):
    mine = torch.empty(len(shard_C))
    dist.reduce_scatter_single(mine, gradient_P, group=group)
    shard_C.grad = mine.double() / dist.get_world_size(group)
    optimizer.step()
    _gather(flat_P, shard_C, group)


@mutant("no output")
def swaps_the_arguments(flat_P, gradient_P, shard_C, optimizer, group):
    dist.reduce_scatter_single(gradient_P, shard_C.grad, group=group)
    optimizer.step()
    _gather(flat_P, shard_C, group)


@mutant("too many bytes")
def gathers_both(flat_P, gradient_P, shard_C, optimizer, group):
    shard_C.grad = _reduce(gradient_P, shard_C, group)
    optimizer.step()
    dist.all_gather_single(gradient_P, shard_C.grad, group=group)
    _gather(flat_P, shard_C, group)


@mutant("library call")
def all_reduces(flat_P, gradient_P, shard_C, optimizer, group):
    n = dist.get_world_size(group)
    dist.all_reduce(gradient_P, group=group)
    shard_C.grad = gradient_P.chunk(n)[dist.get_rank(group)].clone() / n
    optimizer.step()
    _gather(flat_P, shard_C, group)


@mutant("missing wait")
def does_not_wait(flat_P, gradient_P, shard_C, optimizer, group):
    shard_C.grad = _reduce(gradient_P, shard_C, group)
    optimizer.step()
    dist.all_gather_single(flat_P, shard_C.detach(), group=group, async_op=True)
