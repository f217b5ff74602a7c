"""Wrong ways to pass a tensor on."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _neighbours(group=None):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    return (r - 1) % n, (r + 1) % n


@mutant("cycle of receives")
def all_receive_first(x, group):
    left, right = _neighbours(group)
    if left == dist.get_rank(group):
        return x
    received = torch.empty_like(x)
    dist.recv(received, group=group, group_src=left)
    dist.send(x, group=group, group_dst=right)
    return received


@mutant("cycle of sends")
def all_send_first(x, group):
    left, right = _neighbours(group)
    if left == dist.get_rank(group):
        return x
    received = torch.empty_like(x)
    dist.send(x, group=group, group_dst=right)
    dist.recv(received, group=group, group_src=left)
    return received


@mutant("no neighbour")
def forgets_one_rank(x, group):
    left, right = _neighbours(group)
    received = torch.empty_like(x)
    work = dist.isend(x, group=group, group_dst=right)
    dist.recv(received, group=group, group_src=left)
    work.wait()
    return received


@mutant("passed left")
def passes_left(x, group):
    left, right = _neighbours(group)
    if left == dist.get_rank(group):
        return x
    received = torch.empty_like(x)
    work = dist.isend(x, group=group, group_dst=left)
    dist.recv(received, group=group, group_src=right)
    work.wait()
    return received


@mutant("input returned")
def returns_its_own(x, group):
    left, right = _neighbours(group)
    if left == dist.get_rank(group):
        return x
    work = dist.isend(x, group=group, group_dst=right)
    dist.recv(torch.empty_like(x), group=group, group_src=left)
    work.wait()
    return x


@mutant("group ignored")
def passes_round_the_world(x, group):
    left, right = _neighbours()
    if left == right == dist.get_rank():
        return x
    received = torch.empty_like(x)
    work = dist.isend(x, dst=right)
    dist.recv(received, src=left)
    work.wait()
    return received


@mutant("wait forgotten")
def drops_the_work(x, group):
    left, right = _neighbours(group)
    if left == dist.get_rank(group):
        return x
    received = torch.empty_like(x)
    dist.isend(x, group=group, group_dst=right)
    dist.recv(received, group=group, group_src=left)
    return received


@mutant("missing wait")
def drops_the_receive(x, group):
    left, right = _neighbours(group)
    if left == dist.get_rank(group):
        return x
    received = torch.zeros_like(x)
    dist.irecv(received, group=group, group_src=left)
    dist.send(x, group=group, group_dst=right)
    return received


@mutant("library call")
def gathers_all(x, group):
    everything = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everything, x, group=group)
    return everything[dist.get_rank(group) - 1]


@mutant("too many messages")
def sends_twice(x, group):
    left, right = _neighbours(group)
    if left == dist.get_rank(group):
        return x
    received = torch.empty_like(x)
    for half in range(2):
        part = slice(half, None, 2)
        incoming = torch.empty_like(x[part])
        work = dist.isend(x[part].contiguous(), group=group, group_dst=right)
        dist.recv(incoming, group=group, group_src=left)
        work.wait()
        received[part] = incoming
    return received


@mutant("receive from the wrong rank")
def waits_for_the_wrong_side(x, group):
    left, right = _neighbours(group)
    if left == dist.get_rank(group):
        return x
    received = torch.empty_like(x)
    work = dist.isend(x, group=group, group_dst=right)
    dist.recv(received, group=group, group_src=right)
    work.wait()
    return received


@mutant("sender returned")
def returns_what_recv_returns(x, group):
    left, right = _neighbours(group)
    if left == dist.get_rank(group):
        return x
    work = dist.isend(x, group=group, group_dst=right)
    received = dist.recv(torch.empty_like(x), group=group, group_src=left)
    work.wait()
    return received


@mutant("no such rank")
def forgets_the_modulo(x, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    if n == 1:
        return x
    received = torch.empty_like(x)
    work = dist.isend(x, group=group, group_dst=r + 1)
    dist.recv(received, group=group, group_src=r - 1)
    work.wait()
    return received
