"""Attention in one process, and the part of it that lies on a rank which has some of the heads."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.split_inputs import in_dtype_of, in_float64
from grader.judging.exercise import Case

K = 2  # size of a head
INPUTS = ("q", "k", "v")
Parameters = dict[str, Tensor | None]


def whole_parameters(inputs: dict[str, Any]) -> Parameters:
    """Name → the whole weight or bias."""
    return {f"{name}.{part}": inputs[name][part] for name in ("q", "k", "v", "out") for part in ("weight", "bias")}


def in_blocks(head: int, heads: int, kv: int) -> int:
    """The key and value head of a query head: neighbours share one."""
    return head // (heads // kv)


def joined(z_BHTK: Tensor) -> Tensor:
    return z_BHTK.transpose(1, 2).flatten(2)


def attention(case: Case, rank: int, heads: Sequence[int] | None = None, causal: bool = True,
              mapped: Callable[[int, int, int], int] = in_blocks, scale: float = 1 / math.sqrt(K),
              join: Callable[[Tensor], Tensor] = joined) -> dict[str, Any]:
    """y, dx (and "dxs", its terms through q, k and v), and the gradients of whole parameters, computed in float64.

    heads: these query heads alone count; mapped(head, heads, kv heads): the key and value head of a query head; scale: of
    the scores; join: from the heads' results (B, H, T, K) to (B, T, H·K).
    """
    inputs = in_float64(case.inputs[rank])
    leaves = {name: None if whole is None else whole.requires_grad_() for name, whole in whole_parameters(inputs).items()}
    xs = {name: inputs["x"].clone().requires_grad_() for name in INPUTS}
    z = join(results_of_heads(inputs, leaves, xs, mapped, causal, scale))
    if heads is not None:
        z = z * torch.isin(torch.arange(z.shape[-1]) // K, torch.tensor(list(heads)))
    y = F.linear(z, leaves["out.weight"], leaves["out.bias"])
    (y * inputs["weights"]).sum().backward()
    gradients = {name: None if leaf is None else leaf.grad for name, leaf in leaves.items()}
    dxs = {name: x.grad for name, x in xs.items()}
    found = {"y": y.detach(), "dx": sum(dxs.values()), "dxs": dxs, "gradients": gradients}
    return in_dtype_of(found, case.inputs[rank]["x"])


def results_of_heads(inputs: dict[str, Any], whole: Parameters, xs: dict[str, Tensor],
                     mapped: Callable[[int, int, int], int], causal: bool, scale: float) -> Tensor:
    """All heads' results: (B, H, T, K). xs: what goes into q, into k and into v."""
    heads, kv, length = inputs["n_heads"], inputs["n_kv_heads"], inputs["x"].shape[1]
    q, k, v = (F.linear(xs[name], whole[f"{name}.weight"], whole[f"{name}.bias"]).unflatten(-1, (count, -1)).transpose(1, 2)
               for name, count in (("q", heads), ("k", kv), ("v", kv)))
    pairs = [mapped(h, heads, kv) for h in range(heads)]
    scores = q @ k[:, pairs].transpose(-1, -2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
    return scores.softmax(-1) @ v[:, pairs]


def query_heads(case: Case, rank: int) -> range:
    """Those that lie on `rank`."""
    each, r = case.inputs[rank]["n_heads"] // case.group_size(rank), case.group_rank(rank)
    return range(r * each, (r + 1) * each)


def cut(case: Case, rank: int, whole: Parameters, own: Sequence[int] | None = None) -> Parameters:
    """The part of each whole tensor that lies on `rank`. own: its query heads, if others."""
    inputs = case.inputs[rank]
    own = query_heads(case, rank) if own is None else own
    own_kv = sorted({in_blocks(head, inputs["n_heads"], inputs["n_kv_heads"]) for head in own})
    rows, kv_rows = rows_of(own), rows_of(own_kv)
    parts = {name: None if tensor is None else tensor[kv_rows if name.startswith(("k.", "v.")) else rows].clone()
             for name, tensor in whole.items() if not name.startswith("out.")}
    return parts | {"out.weight": whole["out.weight"][:, rows].clone(), "out.bias": whole["out.bias"]}


def rows_of(heads: Sequence[int]) -> list[int]:
    return [head * K + k for head in heads for k in range(K)]
