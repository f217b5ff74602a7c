"""fn(*inputs, group), and a mark in the trace for each input that it changed."""

from typing import Any

import torch

from utils.trace.spans import mark

INPUT_CHANGED = "input changed"


def call(fn, inputs: dict[str, Any], group) -> Any:
    """fn(*inputs, group); leaves a mark in the trace for each input tensor that it changed."""
    before = {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    result = fn(*inputs.values(), group)
    for name, value in before.items():
        if not torch.equal(value, inputs[name]):
            mark(INPUT_CHANGED, parameter=name)
    return result
