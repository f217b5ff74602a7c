"""Inputs of exercises about split layers: whole linear layers, the same on every rank."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from grader.evidence.case import REFUSED
from grader.exercises.shared.cases import each_rank
from grader.judging.exercise import Case, Draw


def numbers(draw: Draw, *shape: int, dtype: str = "float64", divisor: int = 50) -> Tensor:
    """Numbers between −1 and 1 (less for a larger divisor) of the named dtype, none of them 0."""
    return (draw.tensor(*shape, dtype=torch.float64) / divisor).to(getattr(torch, dtype))


def whole_linear(draw: Draw, n_out: int, n_in: int, bias: bool = True, dtype: str = "float64",
                 divisor: int = 50) -> dict[str, Tensor | None]:
    """A linear layer as grader.calling.splitting.linear_of takes it."""
    return {"weight": numbers(draw, n_out, n_in, dtype=dtype, divisor=divisor),
            "bias": numbers(draw, n_out, dtype=dtype, divisor=divisor) if bias else None}


def in_float64(value: Any) -> Any:
    """A copy of dictionary, lists and tensors, floating-point numbers in float64: the oracle computes with it."""
    return tree_map_only(Tensor, lambda x: x.to(torch.float64, copy=True) if x.is_floating_point() else x, value)


def in_dtype_of(value: Any, like: Tensor) -> Any:
    """The same dictionary of tensors, rounded to the dtype of `like`."""
    return tree_map_only(Tensor, lambda x: x.to(like.dtype), value)


def divides(case: Case) -> bool:
    """Whether the case asks for a result, not for a ValueError."""
    return not case.inputs[0].get("refused")


def or_refused(result: Callable[[Case, int], Any]) -> Callable[[Case], list]:
    """An oracle: each rank's result; in a case that is to be refused, the sizes that a ValueError must name."""
    return each_rank(lambda case, rank: result(case, rank) if divides(case) else {REFUSED: case.inputs[rank]["refused"]})
