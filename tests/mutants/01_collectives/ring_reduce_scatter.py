"""Wrong ring reduce-scatters."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _pass_on(sent, received, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    sending = dist.isend(sent, group=group, group_dst=(r + 1) % n)
    dist.recv(received, group=group, group_src=(r - 1) % n)
    sending.wait()


def _ring(sums_NC, group, first, steps=None):
    """The ring in place; `first`: the chunk that rank r sends first is r + first."""
    n, r = dist.get_world_size(group), dist.get_rank(group)
    received_C = torch.empty_like(sums_NC[0])
    for step in range(n - 1 if steps is None else steps):
        _pass_on(sums_NC[(r + first - step) % n], received_C, group)
        sums_NC[(r + first - step - 1) % n] += received_C
    return sums_NC


@mutant("library call")
def calls_the_library(x_NC, group):
    out_C = torch.empty_like(x_NC[0])
    dist.reduce_scatter(out_C, list(x_NC), group=group)
    return out_C


@mutant("own row")
def starts_with_its_own_row(x_NC, group):
    return _ring(x_NC.clone(), group, first=0)[dist.get_rank(group)]


@mutant("row of the next rank")
def returns_the_row_it_completed(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    return _ring(x_NC.clone(), group, first=0)[(r + 1) % n]


@mutant("row of the rank before")
def starts_a_row_too_early(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    return _ring(x_NC.clone(), group, first=-2)[(r - 1) % n]


@mutant("mean for sum")
def divides_by_the_ranks(x_NC, group):
    return _ring(x_NC.clone(), group, first=-1)[dist.get_rank(group)] / dist.get_world_size(group)


@mutant("input changed")
def adds_into_the_input(x_NC, group):
    return _ring(x_NC, group, first=-1)[dist.get_rank(group)]


@mutant("one step too many")
def takes_n_steps(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    return _ring(x_NC.clone(), group, first=-1, steps=n)[r]


@mutant("partial sums not passed on")
def sends_its_own_parts(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    sums_NC, received_C = x_NC.clone(), torch.empty_like(x_NC[0])
    for step in range(n - 1):
        _pass_on(x_NC[(r - step - 1) % n], received_C, group)
        sums_NC[(r - step - 2) % n] += received_C
    return sums_NC[r]


@mutant("nothing added")
def replaces_instead_of_adding(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    sums_NC = x_NC.clone()
    for step in range(n - 1):
        _pass_on(sums_NC[(r - step - 1) % n], sums_NC[(r - step - 2) % n], group)
    return sums_NC[r]


@mutant("far too many bytes")
def passes_whole_tensors(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    total_NC, passing_NC = x_NC.clone(), x_NC.clone()
    for _ in range(n - 1):
        received_NC = torch.empty_like(passing_NC)
        _pass_on(passing_NC, received_NC, group)
        total_NC += received_NC
        passing_NC = received_NC
    return total_NC[r]


@mutant("not a ring")
def sends_each_row_to_its_owner(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    total_C, received_C = x_NC[r].clone(), torch.empty_like(x_NC[r])
    for shift in range(1, n):
        sending = dist.isend(x_NC[(r + shift) % n], group=group, group_dst=(r + shift) % n)
        dist.recv(received_C, group=group, group_src=(r - shift) % n)
        sending.wait()
        total_C += received_C
    return total_C


@mutant("everyone waits")
def everyone_receives_first(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    sums_NC, received_C = x_NC.clone(), torch.empty_like(x_NC[0])
    for step in range(n - 1):
        dist.recv(received_C, group=group, group_src=(r - 1) % n)
        dist.send(sums_NC[(r - step - 1) % n], group=group, group_dst=(r + 1) % n)
        sums_NC[(r - step - 2) % n] += received_C
    return sums_NC[r]


@mutant("missing wait")
def adds_before_it_has_waited(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    sums_NC = x_NC.clone()
    for step in range(n - 1):
        received_C = torch.zeros_like(x_NC[0])
        dist.irecv(received_C, group=group, group_src=(r - 1) % n)
        dist.isend(sums_NC[(r - step - 1) % n], group=group, group_dst=(r + 1) % n).wait()
        sums_NC[(r - step - 2) % n] += received_C
    return sums_NC[r]
