"""What the exercises on split linear layers share: cases of whole layers, one process's result, slips that change it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.sealing import Cut
from grader.evidence.case import SEALED, WEIGHED
from grader.exercises.shared.cases import group_case
from grader.exercises.shared.split_inputs import divides, in_dtype_of, in_float64, numbers, whole_linear
from grader.exercises.technique.linears import IN, OUT
from grader.judging.exercise import Case, Draw, Slip
from utils.models.shards import piece

Parts = dict[str, Any]  # y, dx, and the gradients by name


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
    """One process: x, dy, y, dx, weight and bias with their gradients, all whole, in float64. Without a bias db is None."""
    x, dy = _whole_tensor(case, rank, "x"), _whole_tensor(case, rank, "dy")
    linear = in_float64(case.inputs[rank]["linear"])
    weight, has_bias = linear["weight"], linear["bias"] is not None
    bias = linear["bias"] if has_bias else weight.new_zeros(len(weight))
    y = F.linear(x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_())
    y.backward(dy)
    return {"x": x.detach(), "dy": dy, "y": y.detach(), "dx": x.grad, "dW": weight.grad,
            "db": bias.grad if has_bias else None, "weight": weight.detach(), "bias": bias.detach()}


def _whole_tensor(case: Case, rank: int, name: str) -> Tensor:
    """x or dy as one process has it: the members' parts side by side, or any member's whole one."""
    parts = in_float64(case.peers_inputs(rank, name))
    linear = case.inputs[rank]["linear"]["weight"]
    size = linear.shape[1 if name == "x" else 0]
    return (parts[0] if parts[0].shape[-1] == size else torch.cat(parts, -1)).clone()


def result(case: Case, rank: int, y: Tensor, dx: Tensor, gradients: dict[str, Tensor | None]) -> Parts:
    """As a rank returns it; a gradient that is None is not there."""
    there = {name: gradient for name, gradient in gradients.items() if gradient is not None}
    return in_dtype_of({"y": y, "dx": dx, "gradients": there}, case.inputs[rank]["x"])


def changed(id: str, hint: str, change: Callable[[Case, int, Parts], Parts],
            shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """A slip of the parts that change(case, rank, right parts) gives; the others are right, those not asked for left out."""

    def wrong(case: Case, rank: int, right: list[Any]) -> Parts:
        parts = {"y": right[rank]["y"], "dx": right[rank]["dx"], **right[rank]["gradients"]}
        parts |= {name: part for name, part in change(case, rank, parts).items() if name in parts}
        return right[rank] | result(case, rank, parts.pop("y"), parts.pop("dx"), parts)

    return Slip(id, hint, wrong, shows=lambda case: divides(case) and shows(case))


def times_n(id: str, hint: str, *names: str, power: int = 1) -> Slip:
    """These parts are n (or n to this power) times what they should be."""
    return changed(id, hint, lambda case, rank, right: {
        name: right[name] * float(case.group_size(rank)) ** power for name in names if name in right})
