"""Cases that exercises of every unit share: world sizes, subgroups, and one size that the wire counts."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.calling.with_group import AGAIN
from grader.judging.exercise import Case, Draw

BIG_ELEMENTS_PER_RANK = 1 << 15  # 128 KiB of float32: enough that headers do not matter
TWO_GROUPS = ((1, 3, 4), (0, 2))  # both at work at once, neither of them the world, their ranks not in one piece

Shape = Callable[[int, int], tuple[int, ...]]  # (ranks n, elements k) -> shape of one rank's x


def one_tensor_cases(draw: Draw, grading: bool, shape: Shape) -> list[Case]:
    """x on every rank: 1, 2, 3 and 4 ranks, one in float64, a subgroup, and a size whose bytes on the wire can be compared.

    shape(n, k): the shape of x for n ranks and k elements a rank.
    """
    sizes = [(1, 3), (2, draw.integer(1, 4)), (3, draw.integer(2, 5)), (4, draw.integer(1, 4))]
    if grading:
        sizes += [(5, draw.integer(1, 3)), (2, 1)]
    cases = [same_shape(f"{ranks(n)}, {counted(k, 'element')} each", draw, n, shape(n, k)) for n, k in sizes]
    cases.append(same_shape("2 ranks, float64", draw, 2, shape(2, 3), torch.float64))
    cases.append(subgroup_case(draw, lambda n: shape(n, 2)))
    cases.append(big_case("4 ranks, 128 KiB each", draw, 4, shape(4, BIG_ELEMENTS_PER_RANK)))
    return cases


def rooted_cases(draw: Draw, grading: bool, shape: Shape, big: int = BIG_ELEMENTS_PER_RANK,
                 largest: int = 5) -> list[Case]:
    """x and root on every rank, of every size; the root is seldom rank 0.

    big: elements k of the large case. largest: how many ranks the largest world has, beside 1 to 5.
    """
    sizes = [(1, 0, 3), (2, 1, draw.integer(1, 4)), (3, draw.integer(1, 2), draw.integer(2, 5)),
             (4, 0, draw.integer(1, 4)), (4, 3, draw.integer(1, 4)), (5, draw.integer(1, 4), draw.integer(1, 3))]
    if largest > 5:
        sizes.append((largest, draw.integer(1, largest - 1), 2))
    if grading:
        sizes.append((4, draw.integer(1, 2), 2))
    cases = [_with_roots(_typed(f"{ranks(n)}, root {root}", draw, n, shape(n, k)), (root,) * n) for n, root, k in sizes]
    in_groups = subgroup_case(draw, lambda n: shape(n, 2))
    cases.append(_with_roots(in_groups, tuple(2 if r in TWO_GROUPS[0] else 1 for r in range(5))))
    size = f"{shape(1, big)[-1] * 4 >> 10} KiB"
    cases.append(_with_roots(big_case(f"4 ranks, root 2, {size}", draw, 4, shape(4, big)), (2,) * 4))
    return cases


def sweep(grading: bool, inputs: Callable[[int], Sequence[dict[str, Any]]], groups: bool = True) -> list[Case]:
    """1 to 4 ranks (5 in grading), then two groups; inputs(n) draws those of n ranks that work together."""
    worlds = [Case(ranks(n), tuple(inputs(n))) for n in ((1, 2, 3, 4, 5) if grading else (1, 2, 3, 4))]
    return [*worlds, group_case(inputs)] if groups else worlds


def _with_roots(case: Case, roots: Sequence[int]) -> Case:
    inputs = tuple({**of_rank, "root": root} for of_rank, root in zip(case.inputs, roots, strict=True))
    return Case(case.name, inputs, case.groups)


def same_shape(name: str, draw: Draw, world_size: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Case:
    """One tensor of the same shape on every rank."""
    return Case(name, tuple({"x": x} for x in draw.tensors(world_size, *shape, dtype=dtype)))


def _typed(name: str, draw: Draw, n: int, shape: tuple[int, ...]) -> Case:
    """Like same_shape; two ranks have float64."""
    double = n == 2
    return same_shape(name + ", float64" * double, draw, n, shape, torch.float64 if double else torch.float32)


def big_case(name: str, draw: Draw, world_size: int, shape: tuple[int, ...]) -> Case:
    """Like same_shape, with whole numbers of 20 bits: none fit a shorter type, which would move fewer bytes."""
    parts = zip(*(draw.tensors(world_size, *shape) for _ in range(3)), strict=True)
    return Case(name, tuple({"x": low + 101 * middle + 101**2 * high} for low, middle, high in parts))


def subgroup_case(draw: Draw, shape: Callable[[int], tuple[int, ...]],
                  groups: tuple[tuple[int, ...], ...] = TWO_GROUPS) -> Case:
    """Several groups at work at once; shape(n) is the shape of x in a group of n."""
    owner = {rank: len(group) for group in groups for rank in group}
    inputs = tuple({"x": draw.tensor(*shape(owner[r]))} for r in range(len(owner)))
    return Case(_format_groups(groups), inputs, groups)


def group_case(inputs: Callable[[int], Sequence[dict[str, Any]]], what: str = "") -> Case:
    """The two groups at work at once; inputs(n) gives those of a group of n, in group order; what: more for the name."""
    of_rank = {rank: own for members in TWO_GROUPS for rank, own in zip(members, inputs(len(members)), strict=True)}
    name = ", ".join(part for part in (_format_groups(TWO_GROUPS), what) if part)
    return Case(name, tuple(of_rank[rank] for rank in sorted(of_rank)), TWO_GROUPS)


def _format_groups(groups: Sequence[Sequence[int]]) -> str:
    return "groups " + " and ".join(f"({','.join(map(str, group))})" for group in groups)


def counted(count: int, noun: str) -> str:
    """"1 row", "2 rows"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def again(case: Case) -> Case:
    """The same case, in which the function is called before and after, too, see grader.calling.with_group."""
    return Case(case.name, tuple({**inputs, AGAIN: True} for inputs in case.inputs), case.groups)


def ranks(n: int) -> str:
    return counted(n, "rank")


def xs_of(case: Case, rank: int) -> list[torch.Tensor]:
    """x of each member of `rank`'s group, in group order."""
    return case.peers_inputs(rank, "x")


def root_x(case: Case, rank: int) -> torch.Tensor:
    """x of the root of `rank`'s group."""
    return xs_of(case, rank)[case.inputs[rank]["root"]]


def pieces(x: torch.Tensor, n: int) -> list[torch.Tensor]:
    """x in n shards of one length, the last ones filled up with zeros."""
    return list(torch.cat([x, x.new_zeros(-len(x) % n)]).view(n, -1).unbind())


def total(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Sum over ranks, by one process."""
    return torch.stack(list(tensors)).sum(0, dtype=tensors[0].dtype)


def each_rank(oracle: Callable[[Case, int], object]) -> Callable[[Case], list]:
    """An oracle of whole cases from one of single ranks; every rank of these cases takes part."""
    return lambda case: [oracle(case, rank) for rank in range(case.world_size)]


def once_a_group(compute: Callable[..., Any]) -> Callable[..., Any]:
    """compute(case, rank, ...) whose result is the same for all members of a group: done once, for the first of them."""
    remembered = functools.lru_cache(maxsize=8)(compute)
    return functools.wraps(compute)(
        lambda case, rank, *how, **named: remembered(case, case.members(rank)[0], *how, **named))


def each_group(oracle: Callable[[Case, int], object]) -> Callable[[Case], list]:
    """The same where all ranks of a group are to have one result: it is computed once, for the group's first rank."""

    def results(case: Case) -> list:
        members = [case.members(rank) for rank in range(case.world_size)]
        of_group = {group: oracle(case, group[0]) for group in dict.fromkeys(members)}
        return [of_group[group] for group in members]

    return results
