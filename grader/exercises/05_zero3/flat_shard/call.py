"""How a rank calls flat_shard."""

from collections.abc import Callable
from typing import Any

from torch import nn


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(parameters, group) → the shard, how many bytes it keeps alive, and whether autograd knows where it came from."""
    shard_C = fn([nn.Parameter(numbers.clone()) for numbers in inputs["parameters"]], group)
    return {"shard": shard_C, "bytes kept alive": shard_C.untyped_storage().nbytes(),
            "has a history": shard_C.grad_fn is not None}
