"""Wrong ways to reduce along a tree."""

import math

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _tree(n, place):
    """(send to or receive from this place, whether it is a send) of each round, as the right solution has them."""
    for k in reversed(range(math.ceil(math.log2(n)))):
        if 2**k <= place < 2 ** (k + 1):
            yield place - 2**k, True
        elif place < 2**k and place + 2**k < n:
            yield place + 2**k, False


@mutant("library call")
def calls_the_library(x, root, group):
    total = x.clone()
    dist.reduce(total, group=group, group_dst=root)
    return total if dist.get_rank(group) == root else None


@mutant("too many rounds")
def root_receives_from_everyone(x, root, group):
    if dist.get_rank(group) != root:
        dist.send(x, group=group, group_dst=root)
        return None
    total, received = x.clone(), torch.empty_like(x)
    for peer in range(dist.get_world_size(group)):
        if peer != root:
            dist.recv(received, group=group, group_src=peer)
            total += received
    return total


@mutant("partial sums lost")
def sends_its_own_x_only(x, root, group):
    n = dist.get_world_size(group)
    place = (dist.get_rank(group) - root) % n
    total, received = x.clone(), torch.empty_like(x)
    for other, is_send in _tree(n, place):
        if is_send:
            dist.send(x, group=group, group_dst=(other + root) % n)
        else:
            dist.recv(received, group=group, group_src=(other + root) % n)
            total += received
    return total if place == 0 else None


@mutant("mean for sum")
def divides_by_the_ranks(x, root, group):
    total = _right(x.clone(), root, group)
    return None if total is None else total / dist.get_world_size(group)


@mutant("input changed")
def adds_into_x(x, root, group):
    return _right(x, root, group)


@mutant("result not only on root")
def returns_partial_sums_too(x, root, group):
    total = x.clone()
    _right(total, root, group)
    return total


@mutant("root is always 0")
def tree_to_rank_0(x, root, group):
    return _right(x.clone(), 0, group)


@mutant("nothing added")
def receives_without_adding(x, root, group):
    n = dist.get_world_size(group)
    place = (dist.get_rank(group) - root) % n
    total, received = x.clone(), torch.empty_like(x)
    for other, is_send in _tree(n, place):
        if is_send:
            dist.send(total, group=group, group_dst=(other + root) % n)
        else:
            dist.recv(received, group=group, group_src=(other + root) % n)
    return total if place == 0 else None


def _right(total, root, group):
    n = dist.get_world_size(group)
    place = (dist.get_rank(group) - root) % n
    received = torch.empty_like(total)
    for other, is_send in _tree(n, place):
        if is_send:
            dist.send(total, group=group, group_dst=(other + root) % n)
        else:
            dist.recv(received, group=group, group_src=(other + root) % n)
            total += received
    return total if place == 0 else None
