"""Wrong ways to broadcast from one rank."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


@mutant("library call")
def calls_the_library(x, root, group):
    dist.broadcast(x, group=group, group_src=root)
    return x


@mutant("root is always 0")
def sends_from_rank_0(x, root, group):
    if dist.get_rank(group) == 0:
        for peer in range(1, dist.get_world_size(group)):
            dist.send(x, group=group, group_dst=peer)
    else:
        dist.recv(x, group=group, group_src=0)
    return x


@mutant("message to itself")
def root_sends_to_itself_too(x, root, group):
    if dist.get_rank(group) == root:
        works = [dist.isend(x, group=group, group_dst=peer) for peer in range(dist.get_world_size(group))]
        for work in works:
            work.wait()
    else:
        dist.recv(x, group=group, group_src=root)
    return x


@mutant("group ignored")
def peers_by_world_rank(x, root, group):
    if dist.get_rank(group) == root:
        for peer in range(dist.get_world_size(group)):
            if peer != root:
                dist.send(x, dst=peer, group=group)
    else:
        dist.recv(x, src=root, group=group)
    return x


@mutant("not sent to all")
def sends_to_the_next_rank_only(x, root, group):
    n = dist.get_world_size(group)
    if dist.get_rank(group) != root:
        dist.recv(x, group=group, group_src=root)
    elif n > 1:
        dist.send(x, group=group, group_dst=(root + 1) % n)
    return x


@mutant("own x returned")
def returns_what_it_had(x, root, group):
    if dist.get_rank(group) == root:
        for peer in range(dist.get_world_size(group)):
            if peer != root:
                dist.send(x, group=group, group_dst=peer)
    else:
        received = torch.empty_like(x)
        dist.recv(received, group=group, group_src=root)
    return x


@mutant("others send too")
def passes_it_on_in_a_chain(x, root, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    if r != root:
        dist.recv(x, group=group, group_src=(r - 1) % n)
    if (r + 1) % n != root:
        dist.send(x, group=group, group_dst=(r + 1) % n)
    return x
