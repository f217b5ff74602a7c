"""What the exercises on f and g share: cases, and what can be made of x and of dy."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise

Way = Callable[[Case, int, str], Tensor]  # (case, rank, "x" or "dy") -> what a rank has of it in the end


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


def conjugate(title: str, y: Way, dx: Way) -> Exercise:
    """The exercise whose y is made of x in one way, and whose dx is made of dy in another."""
    return Exercise(title, ("x", "group"), conjugate_cases,
                    each_rank(lambda case, rank: {"y": y(case, rank, "x"), "dx": dx(case, rank, "dy")}),
                    tolerance=TOLERANCE, forbidden=DIFFERENTIABLE)


def own(case: Case, rank: int, name: str) -> Tensor:
    """This rank's."""
    return case.inputs[rank][name]


def total(case: Case, rank: int, name: str) -> Tensor:
    """The sum over the group."""
    return torch.stack([x.double() for x in case.peers_inputs(rank, name)]).sum(0).to(own(case, rank, name).dtype)
