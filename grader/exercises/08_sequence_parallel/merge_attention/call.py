"""How a rank calls merge_attention."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.rings import LEAST
from grader.calling.watching_inputs import watched
from grader.evidence.case import Case


def hand_out(case: Case) -> list[dict[str, Any]]:
    """The attention to each part of the keys: with the keys all could be computed at once, and nothing merged."""
    return [{"parts": [_part(inputs["q"], *part) for part in zip(inputs["ks"], inputs["vs"], inputs["seen"], strict=True)]}
            for inputs in case.inputs]


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Tensor]:
    """fn(o1, lse1, o2, lse2) over the parts of the keys, one after another → the attention to all of them.

    Where lse is −inf, which equals nothing, LEAST stands for it.
    """
    (o, lse), *others = inputs["parts"]
    for part in others:
        o, lse = watched(fn, dict(zip(("o1", "lse1", "o2", "lse2"), (o, lse, *part), strict=True)))
    return {"o": o, "lse": torch.where(lse == float("-inf"), LEAST, lse)}


def _part(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Attention to the keys that each query sees; zeros and −inf for a query that sees none."""
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    return torch.softmax(scores, -1).nan_to_num() @ v, lse
