"""Wrong dropouts on a piece."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _keep(x, p, seed):
    return torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) >= p


def _own(seed, group):
    return seed * dist.get_world_size(group) + dist.get_rank(group)


@mutant("same mask on all ranks")
def one_seed(x, p, seed, group):
    return x * _keep(x, p, seed) / (1 - p)


@mutant("seeds meet")
def adds_the_rank(x, p, seed, group):
    return x * _keep(x, p, seed + dist.get_rank(group)) / (1 - p)


@mutant("random state changed")
def seeds_the_process(x, p, seed, group):
    torch.manual_seed(_own(seed, group))
    return x * (torch.rand(x.shape) >= p) / (1 - p)


_GENERATORS = {}


@mutant("mask redrawn")
def one_generator_for_ever(x, p, seed, group):
    generator = _GENERATORS.setdefault(seed, torch.Generator().manual_seed(_own(seed, group)))
    return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p)


@mutant("not scaled")
def no_scale(x, p, seed, group):
    return x * _keep(x, p, _own(seed, group))


@mutant("scaled by p")
def divides_by_p(x, p, seed, group):
    return x * _keep(x, p, _own(seed, group)) / (p or 1)


@mutant("kept and dropped exchanged")
def keeps_p(x, p, seed, group):
    return x * ~_keep(x, p, _own(seed, group)) / (1 - p)


@mutant("rank of the world")
def everybody(x, p, seed, group):
    return x * _keep(x, p, _own(seed, None)) / (1 - p)


@mutant("no gradient")
def behind_autograd(x, p, seed, group):
    y = x * 1.0
    y.data *= _keep(x, p, _own(seed, group))
    y.data /= 1 - p
    return y
