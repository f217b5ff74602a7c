"""How a rank calls merge_attention."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.rings import LEAST
from grader.calling.watching_inputs import watched


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Tensor]:
    """fn(o1, lse1, o2, lse2) over the parts of the keys, one after another → the attention to all of them.

    Where lse is −inf, which equals nothing, LEAST stands for it.
    """
    q, *keys = map(inputs.pop, ("q", "ks", "vs", "seen"))
    (o, lse), *others = itertools.starmap(functools.partial(_part, q), zip(*keys, strict=True))
    del q, keys  # with them all could be computed at once, and nothing merged
    for part in others:
        o, lse = watched(fn, dict(zip(("o1", "lse1", "o2", "lse2"), (o, lse, *part), strict=True)))
    return {"o": o, "lse": torch.where(lse == float("-inf"), LEAST, lse)}


def _part(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Attention to the keys that each query sees; zeros and −inf for a query that sees none."""
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    return torch.softmax(scores, -1).nan_to_num() @ v, lse
