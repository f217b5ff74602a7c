"""Cases of attention over a sequence in shards, and what one plain process computes for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.rings import REFUSED
from grader.exercises.shared.cases import ranks
from grader.judging.compare import same
from grader.judging.exercise import Case, Draw, Look, Symptom
from utils.models.attention import cut_zigzag, join_zigzag

PARTS = ("o", "dq", "dk", "dv")
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
    if "sizes" in case.inputs[rank]:
        return {REFUSED: case.inputs[rank]["sizes"]}
    cut_one, join = CUTS[cut]
    q, k, v = (join(case.peers_inputs(rank, name)).requires_grad_() for name in "qkv")
    o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    (o * join(case.peers_inputs(rank, "weights"))).sum().backward()
    n, r = len(case.members(rank)), case.group_rank(rank)
    wholes: Sequence[Tensor] = (o.detach(), q.grad, k.grad, v.grad)
    return {name: cut_one(whole, n)[r].clone() for name, whole in zip(PARTS, wholes, strict=True)}


def where_wrong(part: str, output: Callable[[Look, int], Tensor], tolerance: float = 1e-5) -> Callable[[Look], bool]:
    """This part of the result is wrong on some rank, and where it is, it is what output(look, rank) gives."""

    def matches(look: Look) -> bool:
        wrong = [(rank, found[part]) for rank, found, expected in look.pairs()
                 if not same(found[part], expected[part], tolerance)]
        return bool(wrong) and all(same(one, output(look, rank), tolerance) for rank, one in wrong)

    return matches


def not_refused(hint: str) -> Symptom:
    """Sizes that do not fit were not refused by a ValueError, or it does not name them."""
    return Symptom("not refused", hint, lambda look: "sizes" in look.case.inputs[0])


def with_sizes(look: Look) -> bool:
    """Whether this is a case that is to be refused."""
    return "sizes" in look.case.inputs[0]
