"""Wrong ways to average gradients."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _by_dtype(model):
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [[g for g in gradients if g.dtype == dtype] for dtype in {g.dtype: None for g in gradients}]


def _flat(chosen):
    return torch.cat([g.flatten() for g in chosen])


def _back(chosen, flat):
    for gradient, piece in zip(chosen, flat.split([g.numel() for g in chosen]), strict=True):
        gradient.copy_(piece.view_as(gradient))


@mutant("a call each")
def one_by_one(model, group):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)


@mutant("sum for mean")
def sums(model, group):
    for chosen in _by_dtype(model):
        flat = _flat(chosen)
        dist.all_reduce(flat, group=group)
        _back(chosen, flat)


@mutant("divided twice")
def averages_the_average(model, group):
    for chosen in _by_dtype(model):
        flat = _flat(chosen)
        dist.all_reduce(flat, dist.ReduceOp.AVG, group=group)
        _back(chosen, flat / dist.get_world_size(group))


@mutant("own gradients")
def never_copies_back(model, group):
    for chosen in _by_dtype(model):
        flat = _flat(chosen)
        dist.all_reduce(flat, group=group)
        flat /= dist.get_world_size(group)


@mutant("pieces misplaced")
def cuts_in_another_order(model, group):
    for chosen in _by_dtype(model):
        flat = _flat(chosen[::-1])
        dist.all_reduce(flat, group=group)
        _back(chosen, flat / dist.get_world_size(group))


@mutant("no gradient")
def takes_every_parameter(model, group):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat, group=group)
    _back([p.grad for p in model.parameters()], flat / dist.get_world_size(group))


@mutant("zeros for none")
def fills_with_zeros(model, group):
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    for chosen in _by_dtype(model):
        flat = _flat(chosen)
        dist.all_reduce(flat, group=group)
        _back(chosen, flat / dist.get_world_size(group))


@mutant("promoted")
def one_flat_tensor_for_all(model, group):
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = _flat(gradients)
    dist.all_reduce(flat, dist.ReduceOp.AVG, group=group)
    _back(gradients, flat)


@mutant("reduced twice")
def averages_again(model, group):
    for chosen in _by_dtype(model):
        flat = _flat(chosen)
        for _ in range(2):
            dist.all_reduce(flat, dist.ReduceOp.AVG, group=group)
        _back(chosen, flat)


@mutant("group ignored")
def averages_over_the_world(model, group):
    for chosen in _by_dtype(model):
        flat = _flat(chosen)
        dist.all_reduce(flat)
        _back(chosen, flat / dist.get_world_size(group))


@mutant("missing wait")
def does_not_wait(model, group):
    for chosen in _by_dtype(model):
        flat = _flat(chosen)
        dist.all_reduce(flat, group=group, async_op=True)
        _back(chosen, flat / dist.get_world_size(group))
