"""Inputs of exercises about split layers: whole linear layers, the same on every rank, and pieces; what mistakes make."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting import REFUSED
from grader.exercises.shared.cases import each_rank
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Slip


def numbers(draw: Draw, *shape: int, dtype: str = "float64", divisor: int = 50) -> Tensor:
    """Numbers between −1 and 1 (less for a larger divisor) of the named dtype, none of them 0."""
    return (draw.tensor(*shape, dtype=torch.float64) / divisor).to(getattr(torch, dtype))


def whole_linear(draw: Draw, n_out: int, n_in: int, bias: bool = True, dtype: str = "float64",
                 divisor: int = 50) -> dict[str, Tensor | None]:
    """A linear layer as grader.calling.splitting.linear_of takes it."""
    return {"weight": numbers(draw, n_out, n_in, dtype=dtype, divisor=divisor),
            "bias": numbers(draw, n_out, dtype=dtype, divisor=divisor) if bias else None}


def piece(tensor: Tensor, dim: int, n: int, r: int) -> Tensor:
    """The r-th of n equal parts of `tensor` along `dim`."""
    return tensor.tensor_split(n, dim)[r].clone()


def in_float64(value: Any) -> Any:
    """A copy of dictionary, lists and tensors, floating-point numbers in float64: the oracle computes with it."""
    if isinstance(value, Tensor):
        return value.to(torch.float64, copy=True) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: in_float64(part) for key, part in value.items()}
    return [in_float64(part) for part in value] if isinstance(value, (list, tuple)) else value


def in_dtype_of(value: Any, like: Tensor) -> Any:
    """The same dictionary of tensors, rounded to the dtype of `like`."""
    if isinstance(value, dict):
        return {key: in_dtype_of(part, like) for key, part in value.items()}
    return value.to(like.dtype) if isinstance(value, Tensor) else value


def divides(case: Case) -> bool:
    """Whether the case asks for a result, not for a ValueError."""
    return not case.inputs[0].get("refused")


def or_refused(result: Callable[[Case, int], Any]) -> Callable[[Case], list]:
    """An oracle: each rank's result; in a case that is to be refused, the sizes that a ValueError must name."""
    return each_rank(lambda case, rank: result(case, rank) if divides(case) else {REFUSED: case.inputs[rank]["refused"]})


def first_wrong_slip(id: str, hint: str, part: str, value: Callable[[Case, int, Any], Any],
                     shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """`part` of a result is value(case, rank, its right value); what stands before it is right, the rest may be anything."""

    def wrong(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
        names = list(right[rank])
        before, after = names[:names.index(part)], names[names.index(part) + 1:]
        return {**{name: right[rank][name] for name in before}, part: value(case, rank, right[rank][part]),
                **dict.fromkeys(after, ANYTHING)}

    return Slip(id, hint, wrong, shows=lambda case: divides(case) and shows(case))
