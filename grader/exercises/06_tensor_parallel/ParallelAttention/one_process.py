"""Causal attention by one process, and which of its parameters lie on which rank."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judging.exercise import Case

from .technique import KV

K = 2  # size of a head
Parameters = dict[str, Tensor | None]


def whole_parameters(inputs: dict[str, Any]) -> Parameters:
    """Name → the whole weight or bias."""
    return {f"{name}.{part}": inputs[name][part] for name in ("q", "k", "v", "out") for part in ("weight", "bias")}


def in_blocks(head: int, heads: int, kv: int) -> int:
    """The key and value head of a query head: neighbours share one."""
    return head // (heads // kv)


def attend(inputs: dict[str, Any], heads: Sequence[int] | None = None, causal: bool = True,
           mapped: Callable[[int, int, int], int] = in_blocks) -> tuple[Tensor, Tensor, Parameters]:
    """(y, dx, gradients of whole parameters), in float64.

    heads: these query heads alone count; mapped(head, heads, kv heads): the key and value head of a query head.
    """
    leaves = {name: None if one is None else one.double().clone().requires_grad_()
              for name, one in whole_parameters(inputs).items()}
    x = inputs["x"].double().clone().requires_grad_()
    z = _heads_side_by_side(inputs, leaves, x, mapped, causal)
    if heads is not None:
        z = z * torch.isin(torch.arange(z.shape[-1]) // K, torch.tensor(list(heads)))
    y = z @ leaves["out.weight"].T + _or_zero(leaves["out.bias"])
    (y * inputs["weights"].double()).sum().backward()
    return y.detach(), x.grad, {name: None if one is None else one.grad for name, one in leaves.items()}


def _heads_side_by_side(inputs: dict[str, Any], whole: Parameters, x: Tensor, mapped: Callable[[int, int, int], int],
                        causal: bool) -> Tensor:
    """All heads' results: (B, T, H·K)."""
    heads, kv, length = inputs["n_heads"], inputs["n_kv_heads"], x.shape[1]
    q, k, v = ((x @ whole[f"{name}.weight"].T + _or_zero(whole[f"{name}.bias"])).unflatten(-1, (count, -1)).transpose(1, 2)
               for name, count in (("q", heads), ("k", kv), ("v", kv)))
    pairs = [mapped(h, heads, kv) for h in range(heads)]
    scores = q @ k[:, pairs].transpose(-1, -2) / math.sqrt(K)
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
    return (scores.softmax(-1) @ v[:, pairs]).transpose(1, 2).flatten(2)


def _or_zero(bias: Tensor | None) -> Tensor | float:
    return 0.0 if bias is None else bias


def cut(case: Case, rank: int, whole: Parameters, own: Sequence[int] | None = None) -> Parameters:
    """The part of each whole tensor that lies on `rank`. own: its query heads, if others."""
    inputs, n, r = case.inputs[rank], case.group_size(rank), case.group_rank(rank)
    each = inputs["n_heads"] // n
    own = range(r * each, (r + 1) * each) if own is None else own
    own_kv = sorted({in_blocks(head, inputs["n_heads"], inputs["n_kv_heads"]) for head in own})
    rows, kv_rows = _rows(own), _rows(own_kv)
    parts = {name: None if one is None else one[kv_rows if name in KV else rows].clone()
             for name, one in whole.items() if not name.startswith("out.")}
    return parts | {"out.weight": whole["out.weight"][:, rows].clone(), "out.bias": whole["out.bias"]}


def _rows(heads: Sequence[int]) -> list[int]:
    return [head * K + k for head in heads for k in range(K)]
