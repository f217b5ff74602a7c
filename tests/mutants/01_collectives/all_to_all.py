"""Wrong all-to-alls."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _exchange(sent, to, received, source, group):
    sending = dist.isend(sent, group=group, group_dst=to)
    dist.recv(received, group=group, group_src=source)
    sending.wait()


@mutant("library call")
def calls_the_library(x_NC, group):
    out_NC = torch.empty_like(x_NC)
    dist.all_to_all_single(out_NC, x_NC, group=group)
    return out_NC


@mutant("same row to everyone")
def sends_its_own_row_to_all(x_NC, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), x_NC.clone()
    for shift in range(1, n):
        _exchange(x_NC[r], (r + shift) % n, out_NC[(r - shift) % n], (r - shift) % n, group)
    return out_NC


@mutant("order of arrival")
def rows_as_they_come(x_NC, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), torch.empty_like(x_NC)
    out_NC[0] = x_NC[r]
    for shift in range(1, n):
        _exchange(x_NC[(r + shift) % n], (r + shift) % n, out_NC[shift], (r - shift) % n, group)
    return out_NC


@mutant("own row missing")
def forgets_its_own_row(x_NC, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), torch.zeros_like(x_NC)
    for shift in range(1, n):
        _exchange(x_NC[(r + shift) % n], (r + shift) % n, out_NC[(r - shift) % n], (r - shift) % n, group)
    return out_NC


@mutant("message to itself")
def sends_to_itself_too(x_NC, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), torch.zeros_like(x_NC)
    for shift in range(n):
        _exchange(x_NC[(r + shift) % n], (r + shift) % n, out_NC[(r - shift) % n], (r - shift) % n, group)
    return out_NC


@mutant("neighbours only")
def swaps_with_the_next_rank(x_NC, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), x_NC.clone()
    if n > 1:
        _exchange(x_NC[(r + 1) % n], (r + 1) % n, out_NC[(r - 1) % n], (r - 1) % n, group)
    return out_NC


@mutant("more than the rows")
def sends_everything_to_everyone(x_NC, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), x_NC.clone()
    received_NC = torch.empty_like(x_NC)
    for shift in range(1, n):
        _exchange(x_NC, (r + shift) % n, received_NC, (r - shift) % n, group)
        out_NC[(r - shift) % n] = received_NC[r]
    return out_NC


@mutant("everyone waits")
def everyone_receives_first(x_NC, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), x_NC.clone()
    for shift in range(1, n):
        dist.recv(out_NC[(r - shift) % n], group=group, group_src=(r - shift) % n)
        dist.send(x_NC[(r + shift) % n], group=group, group_dst=(r + shift) % n)
    return out_NC


@mutant("group ignored")
def uses_the_world_rank(x_NC, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(), x_NC.clone()
    for shift in range(1, n):
        _exchange(x_NC[(r + shift) % n], (r + shift) % n, out_NC[(r - shift) % n], (r - shift) % n, group)
    return out_NC


@mutant("transposed here")
def transposes_its_own(x_NC, group):
    return x_NC.T.contiguous()
