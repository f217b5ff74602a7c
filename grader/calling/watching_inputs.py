"""A mark in the trace for each input that a function changed."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from utils.trace.spans import mark

INPUT_CHANGED = "input changed"


def watched(fn: Callable, inputs: dict[str, Any], *more: Any) -> Any:
    """fn(*inputs, *more); leaves a mark for each input that is no longer what it was, or holds something that is not."""
    before = copy.deepcopy(inputs)
    result = fn(*inputs.values(), *more)
    for name, value in before.items():
        if not _equal(value, inputs[name]):
            mark(INPUT_CHANGED, parameter=name)
    return result


def _equal(value: Any, now: Any) -> bool:
    (parts, shape), (parts_now, shape_now) = tree_flatten(value), tree_flatten(now)
    return shape == shape_now and all(map(_equal_parts, parts, parts_now))


def _equal_parts(part: Any, now: Any) -> bool:
    return torch.equal(part, now) if isinstance(part, torch.Tensor) else part == now
