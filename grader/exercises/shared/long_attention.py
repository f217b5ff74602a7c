"""Cases of attention over a sequence in shards, and what one plain process computes for them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.evidence.case import REFUSED
from grader.exercises.shared.cases import ranks
from grader.judging.exercise import Case, Draw

TOLERANCE = 1e-6
SEQUENCE = 2  # the dim of q, k and v
Cut = Callable[[Tensor, int, int], Sequence[Tensor]]  # (whole, ranks n, dim) -> the shards
Join = Callable[..., Tensor]  # (shards, dim) -> the whole


def inputs_of(draw: Draw, n: int, heads: int, rows: int, size: int,
              dtype: torch.dtype = torch.float64) -> list[dict[str, Any]]:
    """q, k, v (2, heads, rows, size) of each of n ranks, and the weights of the loss; small where there are few digits."""
    divisor = 100 if dtype == torch.bfloat16 else 25
    return [{name: (draw.tensor(2, heads, rows, size, dtype=torch.float64) / divisor).to(dtype)
             for name in ("q", "k", "v", "weights")} for _ in range(n)]


def named(n: int, heads: int, rows: int, size: int, dtype: torch.dtype = torch.float64) -> str:
    what = "" if dtype == torch.float64 else f", {str(dtype).removeprefix('torch.')}"
    return f"{ranks(n)}, {heads} head{'s' * (heads > 1)}, {rows} rows a rank, K = {size}{what}"


def whole_attention(case: Case, rank: int, cut: Cut = torch.chunk, join: Join = torch.cat) -> dict[str, Any]:
    """This rank's part of causal attention over the whole sequence, by torch's own, and of its gradients.

    cut: the sequence into the ranks' shards, one piece each if nothing else is said; join: those to the sequence.
    """
    if not sizes_fit(case):
        return {REFUSED: case.inputs[rank]["sizes"]}
    q, k, v = (join(case.peers_inputs(rank, name), SEQUENCE).requires_grad_() for name in "qkv")
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    (o * join(case.peers_inputs(rank, "weights"), SEQUENCE)).sum().backward()
    n, r = case.group_size(rank), case.group_rank(rank)
    wholes = {"o": o.detach(), "dq": q.grad, "dk": k.grad, "dv": v.grad}
    return {name: cut(whole, n, SEQUENCE)[r].clone() for name, whole in wholes.items()}


def sizes_fit(case: Case) -> bool:
    """Whether nothing is to be refused."""
    return "sizes" not in case.inputs[0]
