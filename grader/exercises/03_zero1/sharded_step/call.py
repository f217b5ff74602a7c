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
    """fn(flat_P, gradient_P, shard_C, optimizer, group) a few times → all parameters, and this rank's shard."""
    flat_P, n, r = inputs["flat"].clone(), dist.get_world_size(group), dist.get_rank(group)
    shard_C = nn.Parameter(flat_P.chunk(n)[r].clone())
    optimizer, seen = make_optimizer(inputs, [shard_C]), flat_P.view(-1)  # as a model's parameters see the row
    for gradient_P in inputs["gradients"]:
        fn(flat_P, gradient_P.clone(), shard_C, optimizer, group)
    mark(STATE, bytes=state_bytes(optimizer))
    weigh(inputs, END)
    return {"flat": seen, "shard": shard_C.detach()}
