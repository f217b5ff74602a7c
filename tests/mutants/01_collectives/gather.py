"""Wrong ways to gather."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


@mutant("library call")
def calls_the_library(x_C, root, group):
    is_root = dist.get_rank(group) == root
    rows = [torch.empty_like(x_C) for _ in range(dist.get_world_size(group))] if is_root else None
    dist.gather(x_C, rows, group=group, group_dst=root)
    return torch.stack(rows) if is_root else None


@mutant("root is always 0")
def collects_on_rank_0(x_C, root, group):
    if dist.get_rank(group) != 0:
        dist.send(x_C, group=group, group_dst=0)
        return None
    out_NC = torch.stack([x_C] * dist.get_world_size(group))
    for peer in range(1, len(out_NC)):
        dist.recv(out_NC[peer], group=group, group_src=peer)
    return out_NC


@mutant("root's row missing")
def forgets_its_own_row(x_C, root, group):
    if dist.get_rank(group) != root:
        dist.send(x_C, group=group, group_dst=root)
        return None
    out_NC = torch.zeros(dist.get_world_size(group), *x_C.shape)
    for peer in range(len(out_NC)):
        if peer != root:
            dist.recv(out_NC[peer], group=group, group_src=peer)
    return out_NC


@mutant("rows out of order")
def root_first(x_C, root, group):
    if dist.get_rank(group) != root:
        dist.send(x_C, group=group, group_dst=root)
        return None
    rows = [x_C]
    for peer in range(dist.get_world_size(group)):
        if peer != root:
            rows.append(torch.empty_like(x_C))
            dist.recv(rows[-1], group=group, group_src=peer)
    return torch.stack(rows)


@mutant("one buffer")
def keeps_the_buffer_not_its_content(x_C, root, group):
    if dist.get_rank(group) != root:
        dist.send(x_C, group=group, group_dst=root)
        return None
    received, rows = torch.empty_like(x_C), []
    for peer in range(dist.get_world_size(group)):
        if peer == root:
            rows.append(x_C)
        else:
            dist.recv(received, group=group, group_src=peer)
            rows.append(received)
    return torch.stack(rows)


@mutant("summed")
def adds_the_rows(x_C, root, group):
    if dist.get_rank(group) != root:
        dist.send(x_C, group=group, group_dst=root)
        return None
    total_C, received = x_C.clone(), torch.empty_like(x_C)
    for peer in range(dist.get_world_size(group)):
        if peer != root:
            dist.recv(received, group=group, group_src=peer)
            total_C += received
    return total_C


@mutant("result not only on root")
def returns_on_every_rank(x_C, root, group):
    out_NC = torch.stack([x_C] * dist.get_world_size(group))
    if dist.get_rank(group) != root:
        dist.send(x_C, group=group, group_dst=root)
    else:
        for peer in range(len(out_NC)):
            if peer != root:
                dist.recv(out_NC[peer], group=group, group_src=peer)
    return out_NC


@mutant("missing wait")
def reads_before_it_has_waited(x_C, root, group):
    if dist.get_rank(group) != root:
        dist.send(x_C, group=group, group_dst=root)
        return None
    out_NC = torch.stack([x_C] * dist.get_world_size(group))
    for peer in range(len(out_NC)):
        if peer != root:
            dist.irecv(out_NC[peer], group=group, group_src=peer)
    return out_NC


@mutant("more than the rows")
def sends_a_padded_table(x_C, root, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    out_NC = torch.zeros(n, *x_C.shape)
    out_NC[r] = x_C
    if r != root:
        dist.send(out_NC, group=group, group_dst=root)
        return None
    received = torch.empty_like(out_NC)
    for peer in range(n):
        if peer != root:
            dist.recv(received, group=group, group_src=peer)
            out_NC += received
    return out_NC
