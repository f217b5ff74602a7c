"""Wrong ways to broadcast along a tree."""

import math

import torch.distributed as dist

from tests.mutants import mutant


@mutant("library call")
def calls_the_library(x, root, group):
    dist.broadcast(x, group=group, group_src=root)
    return x


@mutant("one sends all")
def root_sends_to_everyone(x, root, group):
    if dist.get_rank(group) == root:
        for peer in range(dist.get_world_size(group)):
            if peer != root:
                dist.send(x, group=group, group_dst=peer)
    else:
        dist.recv(x, group=group, group_src=root)
    return x


@mutant("too many rounds")
def passes_it_on_in_a_chain(x, root, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    if r != root:
        dist.recv(x, group=group, group_src=(r - 1) % n)
    if (r + 1) % n != root:
        dist.send(x, group=group, group_dst=(r + 1) % n)
    return x


@mutant("root is always 0")
def tree_from_rank_0(x, root, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    for k in range(math.ceil(math.log2(n))):
        if r < 2**k and r + 2**k < n:
            dist.send(x, group=group, group_dst=r + 2**k)
        elif 2**k <= r < 2 ** (k + 1):
            dist.recv(x, group=group, group_src=r - 2**k)
    return x


@mutant("past the last rank")
def only_for_powers_of_two(x, root, group):
    n = dist.get_world_size(group)
    place = (dist.get_rank(group) - root) % n
    for k in range(math.ceil(math.log2(n))):
        if place < 2**k:
            dist.send(x, group=group, group_dst=(place + 2**k + root) % n)
        elif place < 2 ** (k + 1):
            dist.recv(x, group=group, group_src=(place - 2**k + root) % n)
    return x


@mutant("a round is missing")
def rounds_down(x, root, group):
    n = dist.get_world_size(group)
    place = (dist.get_rank(group) - root) % n
    for k in range(int(math.log2(n))):
        if place < 2**k and place + 2**k < n:
            dist.send(x, group=group, group_dst=(place + 2**k + root) % n)
        elif 2**k <= place < 2 ** (k + 1):
            dist.recv(x, group=group, group_src=(place - 2**k + root) % n)
    return x


@mutant("group ignored")
def peers_by_world_rank(x, root, group):
    n = dist.get_world_size(group)
    place = (dist.get_rank(group) - root) % n
    for k in range(math.ceil(math.log2(n))):
        if place < 2**k and place + 2**k < n:
            dist.send(x, dst=(place + 2**k + root) % n, group=group)
        elif 2**k <= place < 2 ** (k + 1):
            dist.recv(x, src=(place - 2**k + root) % n, group=group)
    return x
