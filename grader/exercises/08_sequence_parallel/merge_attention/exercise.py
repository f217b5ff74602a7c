"""Two partial attentions, each over some of the keys, become one: the online softmax."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.rings import LEAST
from grader.exercises.shared.cases import each_rank
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def case(what: str, n_keys: Sequence[int], scale: float, dtype: torch.dtype = torch.float64, unseen: bool = False,
             low: bool = False) -> Case:
        def numbers(*shape: int) -> Tensor:
            return (draw.tensor(*shape) * scale).to(dtype)

        q = numbers(2, 3, 5, 4)
        seen = [torch.ones(5, n, dtype=torch.bool) for n in n_keys]
        if unseen:
            seen[0][2:4], seen[1][1:3] = False, False  # query 1 sees the first part only, 3 the second, 2 neither
        ks = [numbers(2, 3, n, 4) for n in n_keys]
        while dtype == torch.float32 and not _decided(q, ks):
            ks = [numbers(2, 3, n, 4) for n in n_keys]
        if low:
            q[..., 0] = 40.0
            for k in ks:
                k[..., 0] = -40.0
        return Case(what, ({"q": q, "ks": ks, "vs": [numbers(2, 3, n, 4) for n in n_keys], "seen": seen},))

    cases = [case("3 and 7 keys", (3, 7), 0.02), case("4, 1 and 5 keys", (4, 1, 5), 0.03),
             case("scores in the thousands", (3, 4), 1.0), case("the same, float32", (4, 3), 1.0, torch.float32),
             case("queries that see no key", (3, 2), 0.02, unseen=True), case("scores near −800", (2, 4), 0.02, low=True)]
    return [*cases, case("many keys", (draw.integer(5, 30), draw.integer(5, 30)), 0.05)] if grading else cases


def _decided(q: Tensor, ks: Sequence[Tensor]) -> bool:
    """Whether every query hears one part only: float32 has no digits left for the difference of two lse in the thousands."""
    lse1, lse2 = (torch.logsumexp(q @ k.mT * q.shape[-1] ** -0.5, -1) for k in ks)
    return bool(((lse1 - lse2).abs() > 30).all())


def _whole(case: Case, rank: int) -> dict[str, Any]:
    """All keys at once, by torch's attention; of a query that sees none, zeros and −inf."""
    inputs = case.inputs[rank]
    q, k, v = inputs["q"], torch.cat(inputs["ks"], 2), torch.cat(inputs["vs"], 2)
    seen = torch.cat(inputs["seen"], -1)
    some = seen.any(-1)
    o = torch.zeros_like(q)
    o[..., some, :] = F.scaled_dot_product_attention(q[..., some, :], k, v, attn_mask=seen[some])
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, float("-inf"))
    return {"o": o, "lse": torch.where(some, torch.logsumexp(scores, -1), LEAST)}


EXERCISE = Exercise(
    title="Merge two partial attentions",
    parameters=("o1", "lse1", "o2", "lse2"),
    make_cases=_cases,
    oracle=each_rank(_whole),
    trains=True,  # as torch.distributed.tensor, too, takes as long to import
    forbidden=("torch.distributed.tensor",),
    tolerance=1e-6,
    points={VALUES: 4},
)
