"""Two partial attentions, each over some of the keys, become one: the online softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.rings import LEAST
from grader.exercises.shared.cases import each_rank
from grader.exercises.technique.sharding import first_wrong
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import every_rank, raised, wrong_ranks

NOTHING = float("-inf")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def case(what: str, n_keys: Sequence[int], scale: float, dtype: torch.dtype = torch.float64, unseen: str = "") -> Case:
        def numbers(*shape: int) -> Tensor:
            return (draw.tensor(*shape) * scale).to(dtype)

        q = numbers(2, 3, 5, 4)
        seen = [torch.ones(5, n, dtype=torch.bool) for n in n_keys]
        if unseen:
            seen[0][2:4], seen[1][1:3] = False, False  # query 1 sees the first part only, 3 the second, 2 neither
        return Case(what, ({"q": q, "ks": [numbers(2, 3, n, 4) for n in n_keys], "vs": [numbers(2, 3, n, 4) for n in n_keys],
                            "seen": seen},))

    cases = [case("3 and 7 keys", (3, 7), 0.02), case("4, 1 and 5 keys", (4, 1, 5), 0.03),
             case("scores in the thousands", (3, 4), 1.0), case("the same, float32", (4, 3), 1.0, torch.float32),
             case("queries that see no key", (3, 2), 0.02, unseen="rows")]
    return [*cases, case("many keys", (draw.integer(5, 30), draw.integer(5, 30)), 0.05)] if grading else cases


def _whole(case: Case, rank: int) -> dict[str, Any]:
    """All keys at once, by torch's attention; of a query that sees none, zeros and −inf."""
    inputs = case.inputs[rank]
    q, k, v = inputs["q"], torch.cat(inputs["ks"], 2), torch.cat(inputs["vs"], 2)
    seen = torch.cat(inputs["seen"], -1)
    some = seen.any(-1)
    o = torch.zeros_like(q)
    o[..., some, :] = F.scaled_dot_product_attention(q[..., some, :], k, v, attn_mask=seen[some])
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, NOTHING)
    return {"o": o, "lse": torch.where(some, torch.logsumexp(scores, -1), LEAST)}


Merge = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def _with(case: Case, merge: Merge) -> dict[str, Any]:
    """What a wrong way to merge gives, part after part."""
    inputs = case.inputs[0]
    parts = []
    for k, v, seen in zip(inputs["ks"], inputs["vs"], inputs["seen"], strict=True):
        scores = (inputs["q"] @ k.mT * k.shape[-1] ** -0.5).masked_fill(~seen, NOTHING)
        parts.append((torch.softmax(scores, -1).nan_to_num() @ v, torch.logsumexp(scores, -1)))
    found = parts[0]
    for part in parts[1:]:
        found = merge(*found, *part)
    return dict(zip(("o", "lse"), found, strict=True))


def _as(merge: Merge) -> Callable[[Look], bool]:
    def test(look: Look, rank: int, found: Any, _: Any) -> bool:
        wrong = _with(look.case, merge)
        return same(_finite(found["o"]), _finite(wrong["o"]), 1e-4)

    return wrong_ranks(test)


def _finite(x: Tensor) -> Tensor:
    return x.nan_to_num(0.0, 0.0, 0.0)


def _average(o1: Tensor, lse1: Tensor, o2: Tensor, lse2: Tensor) -> tuple[Tensor, Tensor]:
    return (o1 + o2) / 2, torch.logaddexp(lse1, lse2)


def _by_lse(o1: Tensor, lse1: Tensor, o2: Tensor, lse2: Tensor) -> tuple[Tensor, Tensor]:
    total = lse1 + lse2
    return (o1 * lse1[..., None] + o2 * lse2[..., None]) / total[..., None], torch.logaddexp(lse1, lse2)


def _swapped(o1: Tensor, lse1: Tensor, o2: Tensor, lse2: Tensor) -> tuple[Tensor, Tensor]:
    lse = torch.logaddexp(lse1, lse2)
    return o1 * torch.exp(lse2 - lse)[..., None] + o2 * torch.exp(lse1 - lse)[..., None], lse


def _not_divided(o1: Tensor, lse1: Tensor, o2: Tensor, lse2: Tensor) -> tuple[Tensor, Tensor]:
    lse, most = torch.logaddexp(lse1, lse2), torch.maximum(lse1, lse2)
    return o1 * torch.exp(lse1 - most)[..., None] + o2 * torch.exp(lse2 - most)[..., None], lse


def _has_nan(look: Look) -> bool:
    return every_rank(lambda look, rank, found, _: not found["o"].isfinite().all() or found["lse"].isnan().any()
                      or (found["lse"] == float("inf")).any())(look)


def _nothing_seen(look: Look) -> bool:
    return any(not seen.any(-1).all() for seen in look.case.inputs[0]["seen"])


EXERCISE = Exercise(
    title="Merge two partial attentions",
    parameters=("o1", "lse1", "o2", "lse2"),
    make_cases=_cases,
    oracle=each_rank(_whole),
    tolerance=1e-6,
    points={VALUES: 4},
    optional=True,
    technique=Technique(
        demands=(only_calls(id="communicates", hint="Merging is a rank's own work: no message is needed."),),
        symptoms=(
        raised("must match the size", "The sizes do not fit: a weight for each query, (B, H, S), multiplies outputs of "
               "(B, H, S, K); give it a last dimension, weight[..., None].", "weights without a dimension"),
        Symptom("plain average", "Both parts count the same: weigh each output by its share of the sum of exponentials, "
                                 "exp(lse_i − lse).", _as(_average)),
        Symptom("weighed by logarithms", "The parts are weighed by lse, a logarithm: a part's share is exp(lse_i − lse).",
                _as(_by_lse)),
        Symptom("weights swapped", "Each output is weighed with the other one's share.", _as(_swapped)),
        Symptom("not divided", "The outputs are scaled by exp(lse_i − maximum), but their sum is not divided by the sum of "
                               "those: the weights must add up to 1.", _as(_not_divided)),
        Symptom("overflow", "Large scores overflow: exp(lse) of a score in the thousands is infinite. Only differences may "
                            "go into exp: subtract the larger lse first, as torch.logaddexp does.",
                lambda look: not _nothing_seen(look) and _has_nan(look)),
        Symptom("nothing seen", "Where neither part saw a key, both lse are −inf, and −inf − (−inf) is NaN: such a query "
                                "has output 0 and lse −inf.", lambda look: _nothing_seen(look) and _has_nan(look)),
        Symptom("wrong lse", "o is right, lse is not, and the next merge needs it: lse = log(exp(lse1) + exp(lse2)), "
                             "computed safely.", lambda look: len(look.case.inputs[0]["ks"]) == 2
                and first_wrong(look, ("o", "lse")) == "lse"),
    ),
    ),
)
