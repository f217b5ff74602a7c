"""Inputs of exercises about split layers: whole linear layers, the same on every rank, and pieces of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judging.exercise import Draw

REFUSED = {"ValueError": "names the sizes"}


def numbers(draw: Draw, *shape: int, dtype: str = "float64") -> Tensor:
    """Numbers between −1 and 1 of the named dtype, none of them 0."""
    return (draw.tensor(*shape, dtype=torch.float64) / 50).to(getattr(torch, dtype))


def whole_linear(draw: Draw, n_out: int, n_in: int, bias: bool = True, dtype: str = "float64") -> dict[str, Tensor | None]:
    """A linear layer as grader.calling.splitting.linear_of takes it."""
    return {"weight": numbers(draw, n_out, n_in, dtype=dtype), "bias": numbers(draw, n_out, dtype=dtype) if bias else None}


def piece(tensor: Tensor, dim: int, n: int, r: int) -> Tensor:
    """The r-th of n equal parts of `tensor` along `dim`."""
    return tensor.tensor_split(n, dim)[r].clone()


def in_float64(value: Any) -> Any:
    """A copy of dictionary, lists and tensors, floating-point numbers in float64: the oracle computes with it."""
    if isinstance(value, Tensor):
        return value.to(torch.float64, copy=True) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: in_float64(one) for key, one in value.items()}
    return [in_float64(one) for one in value] if isinstance(value, (list, tuple)) else value


def in_dtype_of(value: Any, like: Tensor) -> Any:
    """The same dictionary of tensors, rounded to the dtype of `like`."""
    if isinstance(value, dict):
        return {key: in_dtype_of(one, like) for key, one in value.items()}
    return value.to(like.dtype) if isinstance(value, Tensor) else value
