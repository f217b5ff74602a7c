"""Cases that the exercises of this unit share: world sizes, uneven sizes, subgroups, and one size that the wire counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from grader.exercise import Case, Draw

BIG_ELEMENTS_PER_RANK = 1 << 15  # 128 KiB of float32: enough that headers do not matter


def one_tensor_cases(draw: Draw, grading: bool, shape: Callable[[int, int], tuple[int, ...]],
                     big: bool = True) -> Sequence[Case]:
    """x on every rank: 1, 2, 3 and 4 ranks, a subgroup, and a size whose bytes on the wire can be compared.

    shape(n, k): the shape of x for n ranks and k elements a rank.
    """
    sizes = [(1, 3), (2, draw.integer(1, 4)), (3, draw.integer(2, 5)), (4, draw.integer(1, 4))]
    if grading:
        sizes += [(5, draw.integer(1, 3)), (2, 1)]
    cases = [same_shape(f"{n} rank{'s' * (n > 1)}, {k} elements each", draw, n, shape(n, k)) for n, k in sizes]
    cases.append(subgroup_case(draw, lambda n: shape(n, 2)))
    if big:
        cases.append(same_shape("4 ranks, 128 KiB each", draw, 4, shape(4, BIG_ELEMENTS_PER_RANK)))
    return cases


def same_shape(name: str, draw: Draw, world_size: int, shape: tuple[int, ...]) -> Case:
    """One tensor of the same shape on every rank."""
    return Case(name, tuple({"x": x} for x in draw.tensors(world_size, *shape)))


def subgroup_case(draw: Draw, shape: Callable[[int], tuple[int, ...]]) -> Case:
    """Two groups at work at once, neither of them the world, their ranks not in one piece."""
    groups = ((1, 3, 4), (0, 2))
    owner = {rank: len(group) for group in groups for rank in group}
    return Case("groups (1,3,4) and (0,2)", tuple({"x": draw.tensor(*shape(owner[r]))} for r in range(5)), groups)


def total(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Sum over ranks, by one process."""
    return torch.stack(list(tensors)).sum(0)
