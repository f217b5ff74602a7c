"""What the exercises on f and g share: cases, what can be made of x and of dy, and slips that make something else of it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise, Slip

Way = Callable[[Case, int, str], Tensor]  # (case, rank, "x" or "dy") -> what a rank has of it in the end
MADE_OF = {"y": "x", "dx": "dy"}


def conjugate_cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """x and dy on every rank, of 1, 2, 3 and 4 ranks, one of them lying in memory column by column."""

    def inputs(n: int, shape: Sequence[int], dtype: str, transposed: bool = False) -> tuple[dict[str, Any], ...]:
        of_ranks = tuple({name: draw.tensor(*shape, dtype=torch.float64).to(getattr(torch, dtype)) for name in ("x", "dy")}
                         | {"transposed": transposed} for _ in range(n))
        if n == 3:
            of_ranks[-1]["dy"].zero_()  # who has nothing to add takes part all the same
        return of_ranks

    sizes = [(1, (3,), "float64", False), (2, (draw.integer(2, 4), 3), "float32", True), (3, (2, 5), "bfloat16", False),
             (4, (1, 3, 2), "float64", False)]
    if grading:
        sizes.append((5, (7,), "float32", False))
    cases = [Case(f"{ranks(n)}, {dtype} {'×'.join(map(str, shape))}{', transposed' if transposed else ''}",
                  inputs(n, shape, dtype, transposed)) for n, shape, dtype, transposed in sizes]
    return [*cases, group_case(lambda n: inputs(n, (2, 3), "float64"))]


DIFFERENTIABLE = ("torch.distributed._functional_collectives", "torch.distributed.nn.functional")  # torch's own pairs


def conjugate(title: str, slips: tuple[Slip, ...], **ways: Way) -> Exercise:
    """The exercise whose y is made of x in one way, and whose dx is made of dy in another."""
    return Exercise(title, ("x", "group"), conjugate_cases, each_rank(lambda case, rank: _made(case, rank, ways)),
                    slips=slips, tolerance=TOLERANCE, forbidden=DIFFERENTIABLE)


def made_by(id: str, hint: str, **ways: Way) -> Slip:
    """A slip that makes y of x, or dx of dy, or both in another way."""
    return Slip(id, hint, lambda case, rank, right: right[rank] | _made(case, rank, ways))


def _made(case: Case, rank: int, ways: dict[str, Way]) -> dict[str, Tensor]:
    return {part: way(case, rank, MADE_OF[part]) for part, way in ways.items()}


def own(case: Case, rank: int, name: str) -> Tensor:
    """This rank's."""
    return case.inputs[rank][name]


def total(case: Case, rank: int, name: str) -> Tensor:
    """The sum over the group."""
    return torch.stack([x.double() for x in case.peers_inputs(rank, name)]).sum(0).to(own(case, rank, name).dtype)


def total_of_the_world(case: Case, rank: int, name: str) -> Tensor:
    """The sum over all ranks, those of other groups too."""
    return torch.stack([inputs[name].double() for inputs in case.inputs]).sum(0).to(own(case, rank, name).dtype)


def total_times_n(case: Case, rank: int, name: str) -> Tensor:
    """The sum over the group, summed once more."""
    return total(case, rank, name) * case.group_size(rank)


def total_of_the_second_call(case: Case, rank: int, name: str) -> Tensor:
    """The sum over the group of −x, see call_conjugate."""
    return -total(case, rank, name)


def mean(case: Case, rank: int, name: str) -> Tensor:
    """The mean over the group."""
    return total(case, rank, name) / case.group_size(rank)


def largest(case: Case, rank: int, name: str) -> Tensor:
    """The largest of the group, number by number."""
    return torch.stack(case.peers_inputs(rank, name)).amax(0)


def of_first(case: Case, rank: int, name: str) -> Tensor:
    """The group's first rank's."""
    return case.peers_inputs(rank, name)[0]


def on_first(case: Case, rank: int, name: str) -> Tensor:
    """This rank's on the group's first rank, zeros on the others."""
    return own(case, rank, name) * (case.group_rank(rank) == 0)


def own_times_n(case: Case, rank: int, name: str) -> Tensor:
    """This rank's, n times."""
    return own(case, rank, name) * case.group_size(rank)
