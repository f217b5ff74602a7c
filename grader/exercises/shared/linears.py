"""What the exercises on split linear layers share: cases of whole layers, and one process's result."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.sealing import Cut
from grader.evidence.case import SEALED, WEIGHED
from grader.exercises.shared.cases import group_case
from grader.exercises.shared.split_inputs import in_dtype_of, in_float64, numbers, whole_linear
from grader.exercises.technique.linears import IN, OUT
from grader.judging.exercise import Case, Draw
from utils.models.shards import piece


def linear_cases(draw: Draw, grading: bool, dim: int) -> Sequence[Case]:
    """A whole layer on every rank, cut along `dim`; x and dy as far as the rank has them. One case that does not divide."""

    def inputs(n: int, rows: Sequence[int], each: int, uncut: int, bias: bool = True, dtype: str = "float64",
               extra: int = 0, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], ...]:
        cut = n * each + extra
        n_out, n_in = (cut, uncut) if dim == OUT else (uncut, cut)
        linear = whole_linear(draw, n_out, n_in, bias, dtype)
        x, dy = numbers(draw, *rows, n_in, dtype=dtype), numbers(draw, *rows, n_out, dtype=dtype)
        return tuple({"linear": linear, "x": x if dim == OUT or extra else piece(x, r, n, -1),
                      "dy": dy if dim == IN or extra else piece(dy, r, n, -1),
                      "refused": [cut, n] if extra else None, "options": options or {}} for r in range(n))

    a, b = draw.integer(2, 4), draw.integer(3, 5)
    more = {"options": {"copy": False}} if dim == OUT else {"bias": False}
    cases = [Case("1 rank", inputs(1, (2,), 3, 4)), Case(f"2 ranks, {a} each", inputs(2, (3,), a, 5)),
             Case("3 ranks, float32, no bias", inputs(3, (2,), 3, 7, False, "float32")),
             Case("4 ranks, x with 3 dims", inputs(4, (2, 3), 6, 11 + b)),  # so large that a view of the whole shows
             Case("2 ranks, bfloat16", inputs(2, (2,), 3, 5, dtype="bfloat16")),
             Case(f"2 ranks, {'copy=False' if dim == OUT else 'no bias'}", inputs(2, (2,), 3, 5, **more)),
             Case("3 ranks, sizes do not divide", inputs(3, (2,), 3, 5, extra=1))]
    if grading:
        cases.append(Case("5 ranks, 1 each", inputs(5, (2,), 1, 4)))
        cases.append(Case("4 ranks, sealed", tuple(own | {SEALED: _cuts(dim, 4)} for own in inputs(4, (2,), 5, 9))))
        cases.append(Case("2 ranks, weighed", tuple(own | {WEIGHED: True} for own in inputs(2, (2,), 850, 1700))))
    return [*cases, group_case(lambda n: inputs(n, (2,), 2, 3))]


def _cuts(dim: int, n: int) -> dict[str, Cut]:
    """A layer's rows with their part of the bias, or its columns."""
    weight = {"weight": Cut(("linear", "weight"), dim, n)}
    return weight | {"bias": Cut(("linear", "bias"), 0, n)} if dim == OUT else weight


def whole(case: Case, rank: int) -> dict[str, Tensor | None]:
    """One process: dy, y, dx, weight, its gradient and the bias's, all whole, in float64. Without a bias db is None."""
    x, dy = _whole_tensor(case, rank, "x"), _whole_tensor(case, rank, "dy")
    linear = in_float64(case.inputs[rank]["linear"])
    weight, bias = (None if (p := linear[name]) is None else p.requires_grad_() for name in ("weight", "bias"))
    y = F.linear(x.requires_grad_(), weight, bias)
    y.backward(dy)
    return {"dy": dy, "y": y.detach(), "dx": x.grad, "dW": weight.grad, "db": None if bias is None else bias.grad,
            "weight": weight.detach()}


def _whole_tensor(case: Case, rank: int, name: str) -> Tensor:
    """x or dy as one process has it: the members' parts side by side, or any member's whole one."""
    parts = in_float64(case.peers_inputs(rank, name))
    linear = case.inputs[rank]["linear"]["weight"]
    size = linear.shape[1 if name == "x" else 0]
    return (parts[0] if parts[0].shape[-1] == size else torch.cat(parts, -1)).clone()


def result(case: Case, rank: int, y: Tensor, dx: Tensor, gradients: dict[str, Tensor | None]) -> dict[str, Any]:
    """As a rank returns it; a gradient that is None is not there."""
    there = {name: gradient for name, gradient in gradients.items() if gradient is not None}
    return in_dtype_of({"y": y, "dx": dx, "gradients": there}, case.inputs[rank]["x"])
