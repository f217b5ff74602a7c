"""Wrong ring all-reduces."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad

from tests.mutants import mutant


def _pass_on(sent, received, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    sending = dist.isend(sent, group=group, group_dst=(r + 1) % n)
    dist.recv(received, group=group, group_src=(r - 1) % n)
    sending.wait()


def _reduce_scatter(x_NC, group):
    """In place; row r of rank r becomes the sum."""
    n, r = dist.get_world_size(group), dist.get_rank(group)
    received_C = torch.empty_like(x_NC[0])
    for step in range(n - 1):
        _pass_on(x_NC[(r - step - 1) % n], received_C, group)
        x_NC[(r - step - 2) % n] += received_C


def _all_gather(x_NC, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    for step in range(n - 1):
        _pass_on(x_NC[(r - step) % n], x_NC[(r - step - 1) % n], group)


def _padded(x, group):
    n = dist.get_world_size(group)
    return pad(x.clone(), (0, -len(x) % n)).view(n, -1)


@mutant("library call")
def calls_the_library(x, group):
    total = x.clone()
    dist.all_reduce(total, group=group)
    return total


@mutant("mean for sum")
def divides_by_the_ranks(x, group):
    x_NC = _padded(x, group)
    _reduce_scatter(x_NC, group)
    _all_gather(x_NC, group)
    return x_NC.view(-1)[: len(x)] / len(x_NC)


@mutant("whole tensors")
def passes_whole_tensors(x, group):
    total, passing = x.clone(), x.clone()
    for _ in range(dist.get_world_size(group) - 1):
        received = torch.empty_like(x)
        _pass_on(passing, received, group)
        total += received
        passing = received
    return total


@mutant("no all-gather")
def stops_after_the_reduce_scatter(x, group):
    x_NC = _padded(x, group)
    _reduce_scatter(x_NC, group)
    return x_NC.view(-1)[: len(x)]


@mutant("uneven length")
def expects_equal_chunks(x, group):
    x_NC = x.clone().view(dist.get_world_size(group), -1)
    _reduce_scatter(x_NC, group)
    _all_gather(x_NC, group)
    return x_NC.view(-1)


@mutant("tail left out")
def rounds_the_chunk_down(x, group):
    n, result = dist.get_world_size(group), x.clone()
    body = len(x) // n * n
    x_NC = result[:body].view(n, -1) if body else result.new_empty(n, 0)
    _reduce_scatter(x_NC, group)
    _all_gather(x_NC, group)
    return result


@mutant("padding returned")
def keeps_the_padding(x, group):
    x_NC = _padded(x, group)
    _reduce_scatter(x_NC, group)
    _all_gather(x_NC, group)
    return x_NC.view(-1)


@mutant("input returned")
def works_on_a_copy(x, group):
    x_NC = _padded(x, group)
    _reduce_scatter(x_NC, group)
    _all_gather(x_NC, group)
    return x


@mutant("group ignored")
def uses_the_world(x, group):
    x_NC = _padded(x, dist.group.WORLD)
    _reduce_scatter(x_NC, dist.group.WORLD)
    _all_gather(x_NC, dist.group.WORLD)
    return x_NC.view(-1)[: len(x)]


@mutant("one step too many")
def takes_n_steps_a_phase(x, group):
    n, r, x_NC = dist.get_world_size(group), dist.get_rank(group), _padded(x, group)
    received_C = torch.empty_like(x_NC[0])
    for step in range(n):
        _pass_on(x_NC[(r - step - 1) % n], received_C, group)
        x_NC[(r - step - 2) % n] += received_C
    _all_gather(x_NC, group)
    return x_NC.view(-1)[: len(x)]


@mutant("not a ring")
def sends_each_sum_to_everyone(x, group):
    n, r, x_NC = dist.get_world_size(group), dist.get_rank(group), _padded(x, group)
    _reduce_scatter(x_NC, group)
    for shift in range(1, n):
        sending = dist.isend(x_NC[r], group=group, group_dst=(r + shift) % n)
        dist.recv(x_NC[(r - shift) % n], group=group, group_src=(r - shift) % n)
        sending.wait()
    return x_NC.view(-1)[: len(x)]
