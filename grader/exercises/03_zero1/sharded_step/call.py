"""How a rank calls sharded_step."""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import nn

from grader.calling.training import make_optimizer, state_bytes
from grader.calling.weighing import END, weigh
from utils.trace.spans import mark

STATE = "state of the shard's optimizer"


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(flat_Z, gradient_Z, shard_C, optimizer, group) a few times → all parameters, and this rank's shard."""
    flat_Z, n, r = inputs["flat"].clone(), dist.get_world_size(group), dist.get_rank(group)
    shard_C = nn.Parameter(flat_Z.chunk(n)[r].clone())
    optimizer, seen = make_optimizer(inputs, [shard_C]), flat_Z.view(-1)  # as a model's parameters see the row
    for gradient_Z in inputs["gradients"]:
        fn(flat_Z, gradient_Z.clone(), shard_C, optimizer, group)
    mark(STATE, bytes=state_bytes(optimizer))
    weigh(inputs, END)
    return {"flat": seen, "shard": shard_C.detach()}
