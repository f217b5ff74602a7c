"""Wrong ways to sum the gradient of a weight on two stages."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _ends(group):
    p, r = dist.get_world_size(group), dist.get_rank(group)
    return p, r, p - 1 - r


def _exchanged(tensor, other, group):
    theirs = torch.empty_like(tensor)
    work = dist.isend(tensor, group_dst=other, group=group)
    dist.recv(theirs, group_src=other, group=group)
    work.wait()
    return theirs


@mutant("mean for sum")
def averages(weight, group):
    p, r, other = _ends(group)
    if p > 1 and r in (0, p - 1):
        weight.grad = (weight.grad + _exchanged(weight.grad, other, group)) / 2


@mutant("swapped")
def overwrites(weight, group):
    p, r, other = _ends(group)
    if p > 1 and r in (0, p - 1):
        weight.grad = _exchanged(weight.grad, other, group)


@mutant("weights summed")
def sums_the_weights(weight, group):
    p, r, other = _ends(group)
    if p > 1 and r in (0, p - 1):
        weight.data += _exchanged(weight.data, other, group)


@mutant("not reduced")
def one_way_only(weight, group):
    p, r, _ = _ends(group)
    if p > 1 and r == p - 1:
        dist.send(weight.grad, group_dst=0, group=group)
    elif p > 1 and r == 0:
        theirs = torch.empty_like(weight.grad)
        dist.recv(theirs, group_src=p - 1, group=group)
        weight.grad += theirs


@mutant("both send first")
def both_send(weight, group):
    p, r, other = _ends(group)
    if p > 1 and r in (0, p - 1):
        theirs = torch.empty_like(weight.grad)
        dist.send(weight.grad, group_dst=other, group=group)
        dist.recv(theirs, group_src=other, group=group)
        weight.grad += theirs


@mutant("both receive first")
def both_receive(weight, group):
    p, r, other = _ends(group)
    if p > 1 and r in (0, p - 1):
        theirs = torch.empty_like(weight.grad)
        dist.recv(theirs, group_src=other, group=group)
        dist.send(weight.grad, group_dst=other, group=group)
        weight.grad += theirs


@mutant("others take part")
def everyone_reduces(weight, group):
    gradient = torch.zeros(7, 3, dtype=torch.float64) if weight is None else weight.grad
    dist.all_reduce(gradient, group=group)


@mutant("doubled alone")
def doubles_alone(weight, group):
    p, r, other = _ends(group)
    if r in (0, p - 1):
        weight.grad += weight.grad if p == 1 else _exchanged(weight.grad, other, group)


@mutant("group ignored")
def asks_the_world(weight, group):
    p, r, other = _ends(None)
    if p > 1 and r in (0, p - 1) and weight is not None:
        weight.grad += _exchanged(weight.grad, other, None)


@mutant("too many bytes")
def sends_twice(weight, group):
    p, r, other = _ends(group)
    if p > 1 and r in (0, p - 1):
        _exchanged(weight.grad, other, group)
        weight.grad += _exchanged(weight.grad, other, group)


@mutant("missing wait")
def does_not_wait(weight, group):
    p, r, other = _ends(group)
    if p > 1 and r in (0, p - 1):
        theirs = torch.zeros_like(weight.grad)
        work = dist.isend(weight.grad, group_dst=other, group=group)
        dist.irecv(theirs, group_src=other, group=group)
        weight.grad = weight.grad + theirs
        work.wait()


@mutant("middle stages")
def everybody_reduces(weight, group):
    dist.all_reduce(weight.grad, group=group)
