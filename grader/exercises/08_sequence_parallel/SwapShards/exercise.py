"""All-to-all that cuts a tensor along one dimension and joins it along another; its conjugate is itself, reversed."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks, xs_of
from grader.exercises.shared.conjugates import DIFFERENTIABLE
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, shape: Sequence[int], cut: int, join: int,
               dtype: torch.dtype = torch.float64) -> list[dict[str, Any]]:
        """Of each rank: x, with n equal parts along `cut`; and weights for the loss, in the shape of the result."""
        swapped = [size // n if d == cut else size * n if d == join else size for d, size in enumerate(shape)]
        return [{"x": draw.tensor(*shape, dtype=dtype), "cut": cut, "join": join,
                 "weights": draw.tensor(*swapped, dtype=dtype)} for _ in range(n)]

    def case(n: int, shape: Sequence[int], cut: int, join: int, dtype: torch.dtype = torch.float64) -> Case:
        what = "" if dtype == torch.float64 else f", {str(dtype).removeprefix('torch.')}"
        return Case(f"{ranks(n)}, {'×'.join(map(str, shape))}, cut {cut}, join {join}{what}",
                    tuple(inputs(n, shape, cut, join, dtype)))

    cases = [case(1, (2, 3, 4, 5), 1, 2), case(2, (2, 4, 3, 5), 1, 2), case(4, (2, 2, 12, 3), 2, 1),
             case(3, (1, 2, 3, 3), 3, 1), case(2, (3, 2, 5, 4), 1, 2, torch.bfloat16)]
    more = [case(3, (6, 4, 5), 0, 2), case(4, (2, 8, draw.integer(1, 5), 3), 1, 2)]  # drawn always: what follows is the same
    return [*cases, *(more if grading else []), group_case(lambda n: inputs(n, (2, n, 3, 2), 1, 2))]


def _right(case: Case, rank: int) -> dict[str, Tensor]:
    """x of all ranks, joined to the whole, is cut the other way; the gradient the way back."""
    n, r = case.group_size(rank), case.group_rank(rank)
    cut, join = (case.inputs[rank][name] for name in ("cut", "join"))
    whole = torch.cat(xs_of(case, rank), join).requires_grad_()
    (whole * torch.cat(case.peers_inputs(rank, "weights"), cut)).sum().backward()
    return {"y": whole.detach().chunk(n, cut)[r].clone(), "dx": whole.grad.chunk(n, join)[r].clone()}


EXERCISE = Exercise(
    title="Swap what is cut",
    parameters=("x", "cut", "join", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    forbidden=DIFFERENTIABLE,
)
