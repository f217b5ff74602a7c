"""Wrong ring all-gathers."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _pass_on(sent, received, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    sending = dist.isend(sent, group=group, group_dst=(r + 1) % n)
    dist.recv(received, group=group, group_src=(r - 1) % n)
    sending.wait()


def _place_own(x_C, group):
    out_NC = x_C.new_zeros(dist.get_world_size(group), *x_C.shape)
    out_NC[dist.get_rank(group)] = x_C
    return out_NC


@mutant("library call")
def calls_the_library(x_C, group):
    rows = [torch.empty_like(x_C) for _ in range(dist.get_world_size(group))]
    dist.all_gather(rows, x_C, group=group)
    return torch.stack(rows)


@mutant("own row again and again")
def sends_its_own_row_each_time(x_C, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), _place_own(x_C, group)
    for step in range(n - 1):
        _pass_on(x_C, out_NC[(r - step - 1) % n], group)
    return out_NC


@mutant("order of arrival")
def stacks_as_they_come(x_C, group):
    rows = [x_C]
    for _ in range(dist.get_world_size(group) - 1):
        received_C = torch.empty_like(x_C)
        _pass_on(rows[-1], received_C, group)
        rows.append(received_C)
    return torch.stack(rows)


@mutant("one buffer")
def keeps_the_buffer_not_its_content(x_C, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    rows, passing_C, received_C = [x_C] * n, x_C.clone(), torch.empty_like(x_C)
    for step in range(n - 1):
        _pass_on(passing_C, received_C, group)
        passing_C.copy_(received_C)
        rows[(r - step - 1) % n] = received_C
    return torch.stack(rows)


@mutant("rows shifted by one")
def counts_from_the_wrong_rank(x_C, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    out_NC = x_C.new_zeros(n, *x_C.shape)
    out_NC[(r + 1) % n] = x_C
    for step in range(n - 1):
        _pass_on(out_NC[(r - step + 1) % n], out_NC[(r - step) % n], group)
    return out_NC


@mutant("a row missing")
def stops_a_step_early(x_C, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), _place_own(x_C, group)
    for step in range(n - 2):
        _pass_on(out_NC[(r - step) % n], out_NC[(r - step - 1) % n], group)
    return out_NC


@mutant("whole tensors")
def passes_the_whole_table(x_C, group):
    out_NC = _place_own(x_C, group)
    received_NC = torch.empty_like(out_NC)
    for _ in range(dist.get_world_size(group) - 1):
        _pass_on(out_NC, received_NC, group)
        out_NC = torch.where(out_NC == 0, received_NC, out_NC)
    return out_NC


@mutant("not a ring")
def sends_to_everyone(x_C, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), _place_own(x_C, group)
    for shift in range(1, n):
        sending = dist.isend(x_C, group=group, group_dst=(r + shift) % n)
        dist.recv(out_NC[(r - shift) % n], group=group, group_src=(r - shift) % n)
        sending.wait()
    return out_NC


@mutant("open ring")
def forgets_that_the_ring_closes(x_C, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), _place_own(x_C, group)
    for step in range(n - 1):
        sending = dist.isend(out_NC[(r - step) % n], group=group, group_dst=r + 1)
        dist.recv(out_NC[(r - step - 1) % n], group=group, group_src=(r - 1) % n)
        sending.wait()
    return out_NC


@mutant("everyone waits")
def everyone_sends_first(x_C, group):
    n, r, out_NC = dist.get_world_size(group), dist.get_rank(group), _place_own(x_C, group)
    for step in range(n - 1):
        dist.send(out_NC[(r - step) % n], group=group, group_dst=(r + 1) % n)
        dist.recv(out_NC[(r - step - 1) % n], group=group, group_src=(r - 1) % n)
    return out_NC


@mutant("group ignored")
def uses_the_world(x_C, group):
    n, r = dist.get_world_size(), dist.get_rank()
    out_NC = x_C.new_zeros(n, *x_C.shape)
    out_NC[r] = x_C
    for step in range(n - 1):
        sending = dist.isend(out_NC[(r - step) % n], dst=(r + 1) % n)
        dist.recv(out_NC[(r - step - 1) % n], src=(r - 1) % n)
        sending.wait()
    return out_NC
