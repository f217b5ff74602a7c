"""Wrong ways to scatter."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


@mutant("library call")
def calls_the_library(x_NC, root, group):
    row_C = torch.empty_like(x_NC[0])
    rows = list(x_NC) if dist.get_rank(group) == root else None
    dist.scatter(row_C, rows, group=group, group_src=root)
    return row_C


@mutant("more than the rows")
def broadcasts_and_picks(x_NC, root, group):
    if dist.get_rank(group) == root:
        for peer in range(dist.get_world_size(group)):
            if peer != root:
                dist.send(x_NC, group=group, group_dst=peer)
    else:
        dist.recv(x_NC, group=group, group_src=root)
    return x_NC[dist.get_rank(group)]


@mutant("gather instead")
def gathers(x_NC, root, group):
    r = dist.get_rank(group)
    if r == root:
        for peer in range(dist.get_world_size(group)):
            if peer != root:
                dist.recv(x_NC[peer], group=group, group_src=peer)
    else:
        dist.send(x_NC[r], group=group, group_dst=root)
    return x_NC[r]


@mutant("row of another rank")
def counts_only_the_others(x_NC, root, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    if r != root:
        row_C = torch.empty_like(x_NC[0])
        dist.recv(row_C, group=group, group_src=root)
        return row_C
    others = [peer for peer in range(n) if peer != root]
    for number, peer in enumerate(others):
        dist.send(x_NC[number], group=group, group_dst=peer)
    return x_NC[n - 1]


@mutant("same row for all")
def sends_the_first_row(x_NC, root, group):
    if dist.get_rank(group) != root:
        row_C = torch.empty_like(x_NC[0])
        dist.recv(row_C, group=group, group_src=root)
        return row_C
    for peer in range(dist.get_world_size(group)):
        if peer != root:
            dist.send(x_NC[0], group=group, group_dst=peer)
    return x_NC[0]


@mutant("own row")
def returns_its_own_row(x_NC, root, group):
    r = dist.get_rank(group)
    if r == root:
        for peer in range(dist.get_world_size(group)):
            if peer != root:
                dist.send(x_NC[peer], group=group, group_dst=peer)
    else:
        dist.recv(torch.empty_like(x_NC[r]), group=group, group_src=root)
    return x_NC[r]


@mutant("root is always 0")
def scatters_from_rank_0(x_NC, root, group):
    r = dist.get_rank(group)
    row_C = x_NC[r].clone()
    if r == 0:
        for peer in range(1, dist.get_world_size(group)):
            dist.send(x_NC[peer], group=group, group_dst=peer)
    else:
        dist.recv(row_C, group=group, group_src=0)
    return row_C


@mutant("group ignored")
def uses_the_world_rank(x_NC, root, group):
    r = dist.get_rank()
    if r != root:
        row_C = torch.empty_like(x_NC[0])
        dist.recv(row_C, group=group, group_src=root)
        return row_C
    for peer in range(dist.get_world_size(group)):
        if peer != root:
            dist.send(x_NC[peer], group=group, group_dst=peer)
    return x_NC[root]
