"""Wrong sums of gradients."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _with_gradient(parameters):
    return [p for p in parameters if p.grad is not None]


@mutant("nothing reduced")
def reduces_a_copy(parameters, group):
    dist.all_reduce(torch.cat([p.grad.flatten() for p in _with_gradient(parameters)]), group=group)


@mutant("mean for sum")
def averages(parameters, group):
    own = _with_gradient(parameters)
    row = torch.cat([p.grad.flatten() for p in own])
    dist.all_reduce(row, group=group)
    for p, total in zip(own, row.split([p.grad.numel() for p in own]), strict=True):
        p.grad = total.view_as(p) / dist.get_world_size(group)


@mutant("too many messages")
def one_by_one(parameters, group):
    for p in _with_gradient(parameters):
        dist.all_reduce(p.grad, group=group)


@mutant("no gradient")
def all_have_one(parameters, group):
    row = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(row, group=group)
    for p, total in zip(parameters, row.split([p.grad.numel() for p in parameters]), strict=True):
        p.grad = total.view_as(p)


@mutant("only the first")
def stops_early(parameters, group):
    for p in _with_gradient(parameters):
        dist.all_reduce(p.grad, group=group)
        return


@mutant("invented gradient")
def zeros_where_none(parameters, group):
    for p in parameters:
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
    row = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(row, group=group)
    for p, total in zip(parameters, row.split([p.grad.numel() for p in parameters]), strict=True):
        p.grad = total.view_as(p)


@mutant("pieces mixed up")
def wrong_order(parameters, group):
    own = _with_gradient(parameters)
    row = torch.cat([p.grad.flatten() for p in own[::-1]])
    dist.all_reduce(row, group=group)
    for p, total in zip(own, row.split([p.grad.numel() for p in own]), strict=True):
        p.grad = total.view_as(p)


@mutant("group ignored")
def the_world(parameters, group):
    own = _with_gradient(parameters)
    row = torch.cat([p.grad.flatten() for p in own])
    dist.all_reduce(row)
    for p, total in zip(own, row.split([p.grad.numel() for p in own]), strict=True):
        p.grad = total.view_as(p)


@mutant("library call")
def gathers_all(parameters, group):
    for p in _with_gradient(parameters):
        parts = [torch.empty_like(p.grad) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, p.grad, group=group)
        p.grad = torch.stack(parts).sum(0)
