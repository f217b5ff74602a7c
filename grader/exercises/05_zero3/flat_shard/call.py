"""How a rank calls flat_shard."""

from collections.abc import Callable
from typing import Any

from torch import nn


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(parameters, group) → the shard, and how many bytes it keeps alive."""
    shard_C = fn([nn.Parameter(numbers.clone()) for numbers in inputs["parameters"]], group)
    return {"shard": shard_C, "bytes kept alive": shard_C.untyped_storage().nbytes()}
