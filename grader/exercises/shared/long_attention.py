"""Cases of attention over a sequence in shards, and what one plain process computes for them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.rings import PARTS, REFUSED
from grader.exercises.shared.cases import ranks
from grader.exercises.shared.sequence_inputs import wrong_from
from grader.judging.exercise import Case, Draw, Slip
from utils.models.attention import cut_zigzag, join_zigzag

TOLERANCE = 1e-6
Join = Callable[[list[Tensor]], Tensor]
Cut = Callable[[Tensor, int], list[Tensor]]


def inputs_of(draw: Draw, n: int, heads: int, rows: int, size: int,
              dtype: torch.dtype = torch.float64) -> list[dict[str, Any]]:
    """q, k, v (2, heads, rows, size) of each of n ranks, and the weights of the loss."""
    return [{name: (draw.tensor(2, heads, rows, size) / 25).to(dtype) for name in ("q", "k", "v", "weights")}
            for _ in range(n)]


def named(n: int, heads: int, rows: int, size: int, dtype: torch.dtype = torch.float64) -> str:
    what = "" if dtype == torch.float64 else f", {str(dtype).removeprefix('torch.')}"
    return f"{ranks(n)}, {heads} head{'s' * (heads > 1)}, {rows} rows a rank, K = {size}{what}"


def cut_plain(x: Tensor, n: int) -> list[Tensor]:
    """The shards of a sequence, one piece a rank."""
    return list(x.chunk(n, 2))


def join_plain(shards: list[Tensor]) -> Tensor:
    return torch.cat(shards, 2)


CUTS: dict[str, tuple[Cut, Join]] = {"zigzag": (cut_zigzag, join_zigzag), "plain": (cut_plain, join_plain)}


def whole_attention(case: Case, rank: int, cut: str, causal: bool = True) -> dict[str, Any]:
    """This rank's part of causal attention over the whole sequence, by torch's own, and of its gradients."""
    if not sizes_fit(case):
        return {REFUSED: case.inputs[rank]["sizes"]}
    cut_tensor, join = CUTS[cut]
    q, k, v = (join(case.peers_inputs(rank, name)).requires_grad_() for name in "qkv")
    o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    (o * join(case.peers_inputs(rank, "weights"))).sum().backward()
    n, r = len(case.members(rank)), case.group_rank(rank)
    wholes: Sequence[Tensor] = (o.detach(), q.grad, k.grad, v.grad)
    return {name: cut_tensor(whole, n)[r].clone() for name, whole in zip(PARTS, wholes, strict=True)}


def sizes_fit(case: Case) -> bool:
    """Whether nothing is to be refused."""
    return "sizes" not in case.inputs[0]


def another_o(id: str, hint: str, output: Callable[[Case, int], Tensor]) -> Slip:
    """o is output(case, rank) on every rank."""
    return Slip(id, hint, lambda case, rank, right: wrong_from(right[rank], "o", output(case, rank)), sizes_fit)
