"""What the exercises on f and g share: cases, and what a group has of x and of dy together."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import group_case, ranks
from grader.judging.exercise import Case, Draw

DTYPES = ("float64", "float32", "bfloat16", "float64", "float32")


def conjugate_cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """x and dy on every rank, of 1, 2, 3 and 4 ranks, one of them lying in memory column by column."""

    def inputs(n: int, shape: Sequence[int], dtype: str, transposed: bool = False) -> list[dict[str, Any]]:
        return [{name: draw.tensor(*shape, dtype=torch.float64).to(getattr(torch, dtype)) for name in ("x", "dy")}
                | {"transposed": transposed} for _ in range(n)]

    sizes = [(1, (3,), False), (2, (draw.integer(2, 4), 3), True), (3, (2, 5), False), (4, (1, 3, 2), False)]
    if grading:
        sizes.append((5, (7,), False))
    cases = [Case(f"{ranks(n)}, {dtype} {'×'.join(map(str, shape))}{', transposed' if transposed else ''}",
                  tuple(inputs(n, shape, dtype, transposed)))
             for (n, shape, transposed), dtype in zip(sizes, DTYPES, strict=False)]
    return [*cases, group_case(lambda n: inputs(n, (2, 3), "float64"))]


def own(case: Case, rank: int, name: str) -> Tensor:
    """x or dy, this rank's."""
    return case.inputs[rank][name]


def total(case: Case, rank: int, name: str) -> Tensor:
    """x or dy, summed over the group."""
    return torch.stack([x.double() for x in case.peers_inputs(rank, name)]).sum(0).to(own(case, rank, name).dtype)
