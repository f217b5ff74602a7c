"""Two partial attentions, each over some of the keys, become one: the online softmax."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.rings import LEAST
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.models.attention import attend


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


def _tells(case: Case) -> bool:
    """Not where a wrong merge makes NaN of unseen keys, or where float32 rounds differences of large scores."""
    inputs = case.inputs[0]
    return inputs["q"].dtype == torch.float64 and all(bool(seen.all()) for seen in inputs["seen"])


def _merged(id: str, hint: str, merge: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Slip:
    """o of the parts, one after another, is merge(o1, lse1, o2, lse2), with each lse (…, 1); lse is right on the way."""

    def wrong(case: Case, rank: int, _: Tensor) -> Tensor:
        inputs = case.inputs[rank]
        (o, lse), *others = [attend(inputs["q"], k, v) for k, v in zip(inputs["ks"], inputs["vs"], strict=True)]
        for o2, lse2 in others:
            o, lse = merge(o, lse[..., None], o2, lse2[..., None]), torch.logaddexp(lse, lse2)
        return o

    return first_wrong_slip(id, hint, "o", wrong, shows=_tells)


def _swapped(o1: Tensor, lse1: Tensor, o2: Tensor, lse2: Tensor) -> Tensor:
    lse = torch.logaddexp(lse1, lse2)
    return o1 * torch.exp(lse2 - lse) + o2 * torch.exp(lse1 - lse)


def _not_divided(o1: Tensor, lse1: Tensor, o2: Tensor, lse2: Tensor) -> Tensor:
    most = torch.maximum(lse1, lse2)
    return o1 * torch.exp(lse1 - most) + o2 * torch.exp(lse2 - most)


def _lse(id: str, hint: str, merge: Callable[[Tensor, Tensor], Tensor]) -> Slip:
    """Of two parts o is right, and lse is merge(lse1, lse2)."""

    def wrong(case: Case, rank: int, _: Tensor) -> Tensor:
        inputs = case.inputs[rank]
        return merge(*(attend(inputs["q"], k, v)[1] for k, v in zip(inputs["ks"], inputs["vs"], strict=True)))

    return first_wrong_slip(id, hint, "lse", wrong, shows=lambda case: _tells(case) and len(case.inputs[0]["ks"]) == 2)


EXERCISE = Exercise(
    title="Merge two partial attentions",
    parameters=("o1", "lse1", "o2", "lse2"),
    make_cases=_cases,
    oracle=each_rank(_whole),
    trains=True,  # as torch.distributed.tensor, too, takes as long to import
    forbidden=("torch.distributed.tensor",),
    tolerance=1e-6,
    points={VALUES: 4},
    slips=(
        _merged("plain average", "Both parts count the same: weigh each output by its share of the sum of exponentials, "
                                 "exp(lse_i − lse).", lambda o1, lse1, o2, lse2: (o1 + o2) / 2),
        _merged("weighed by logarithms", "The parts are weighed by lse, a logarithm: a part's share is exp(lse_i − lse).",
                lambda o1, lse1, o2, lse2: (o1 * lse1 + o2 * lse2) / (lse1 + lse2)),
        _lse("lse added", "lse1 + lse2 is the logarithm of a product. The sums of exponentials are added, and then their "
             "logarithm is taken.", lambda lse1, lse2: lse1 + lse2),
        _lse("larger lse", "The larger of both lse is a bound only: both parts' sums of exponentials count.", torch.maximum),
        _lse("another base", "lse is the natural logarithm.",
             lambda lse1, lse2: torch.maximum(lse1, lse2) + torch.log2(1 + torch.exp(-(lse1 - lse2).abs()))),
        _lse("maximum not added", "The maximum was subtracted before exp, and must be added to the logarithm again.",
             lambda lse1, lse2: torch.logaddexp(lse1, lse2) - torch.maximum(lse1, lse2)),
        _merged("weights swapped", "Each output is weighed with the other one's share.", _swapped),
        _merged("not divided", "The outputs are scaled by exp(lse_i − maximum), but their sum is not divided by the sum of "
                               "those: the weights must add up to 1.", _not_divided),
    ),
)
