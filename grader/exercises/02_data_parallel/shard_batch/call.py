"""How a rank calls shard_batch."""

from collections.abc import Callable
from typing import Any

import torch

from grader.calling.watching_inputs import watched


def call(fn: Callable, inputs: dict[str, Any], group) -> Any:
    """fn(x_BD, group), where x_BD does not begin where its memory does."""
    x_BD = inputs["x_BD"]
    return watched(fn, {"x_BD": torch.cat([x_BD - 1, x_BD])[len(x_BD):]}, group)
