"""Wrong clipping."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _total(value, group):
    total = torch.as_tensor(value, dtype=torch.float64).clone()
    dist.all_reduce(total, group=group)
    return total.item()


def _global(gradient_C, group):
    return _total((gradient_C.double() ** 2).sum(), group) ** 0.5


def _scale(gradient_C, norm, max_norm):
    if norm > max_norm:
        gradient_C *= max_norm / norm
    return norm


@mutant("own norm")
def of_the_shard(gradient_C, max_norm, group):
    return _scale(gradient_C, gradient_C.double().norm().item(), max_norm)


@mutant("norms added")
def adds_norms(gradient_C, max_norm, group):
    return _scale(gradient_C, _total(gradient_C.double().norm(), group), max_norm)


@mutant("root forgotten")
def square(gradient_C, max_norm, group):
    return _scale(gradient_C, _global(gradient_C, group) ** 2, max_norm)


@mutant("always scaled")
def stretches(gradient_C, max_norm, group):
    norm = _global(gradient_C, group)
    if norm:
        gradient_C *= max_norm / norm
    return norm


@mutant("not a number")
def divides_by_zero(gradient_C, max_norm, group):
    norm = torch.tensor(_global(gradient_C, group), dtype=torch.float64)
    gradient_C *= torch.clamp(max_norm / norm, max=1.0) * norm / norm
    return norm.item()


@mutant("not scaled")
def leaves_it(gradient_C, max_norm, group):
    norm = _global(gradient_C, group)
    gradient_C = gradient_C * min(1.0, max_norm / max(norm, 1e-12))
    return norm


@mutant("norm after clipping")
def returns_the_new_norm(gradient_C, max_norm, group):
    return min(_scale(gradient_C, _global(gradient_C, group), max_norm), max_norm)


@mutant("16 bits")
def in_its_own_type(gradient_C, max_norm, group):
    square = (gradient_C**2).sum()
    dist.all_reduce(square, group=group)
    return _scale(gradient_C, square.sqrt().item(), max_norm)


@mutant("too many bytes")
def sends_the_squares(gradient_C, max_norm, group):
    squares = torch.zeros(64, dtype=torch.float64)
    squares[:len(gradient_C)] = gradient_C.double() ** 2
    dist.all_reduce(squares, group=group)
    return _scale(gradient_C, squares.sum().item() ** 0.5, max_norm)


@mutant("library call")
def gathers(gradient_C, max_norm, group):
    norms = [torch.zeros((), dtype=torch.float64) for _ in range(dist.get_world_size(group))]
    dist.all_gather(norms, gradient_C.double().norm(), group=group)
    return _scale(gradient_C, torch.stack(norms).norm().item(), max_norm)


@mutant("group ignored")
def of_the_world(gradient_C, max_norm, group):
    return _scale(gradient_C, _global(gradient_C, None), max_norm)
