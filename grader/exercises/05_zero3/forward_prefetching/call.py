"""How a rank calls forward_prefetching."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.sharding import KEPT
from utils.trace.spans import mark, span


def call(fn: Callable, inputs: dict[str, Any], group) -> Tensor:
    """fn(x, shards, compute, depth, group); marks how many layers before the present one still stand."""
    seen: list[weakref.ref] = []

    def compute(number: int, flat_P: Tensor, x_BD: Tensor) -> Tensor:
        mark(KEPT, layer=number, count=sum(row() is not None for row in seen))
        seen.append(weakref.ref(flat_P.untyped_storage()))
        with span(f"compute {number}"):
            dim = x_BD.shape[1]
            return torch.tanh(x_BD @ flat_P[:dim * dim].view(dim, dim) + number)

    return fn(inputs["x"].clone(), [shard.clone() for shard in inputs["shards"]], compute, inputs["depth"], group)
