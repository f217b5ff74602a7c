"""How a rank calls flat_shard."""

from collections.abc import Callable
from typing import Any

from torch import nn


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(parameters, group) → the shard, how many bytes it keeps alive, and whether autograd knows where it came from."""
    parameters = [nn.Parameter(numbers.clone()) for numbers in inputs["parameters"]]
    shard_C = fn(parameters, group)
    for parameter in parameters:
        parameter.data.neg_()  # which a shard with memory of its own does not see
    return {"shard": shard_C, "bytes kept alive": shard_C.untyped_storage().nbytes(),
            "has a history": shard_C.grad_fn is not None}
