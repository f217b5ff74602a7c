"""The way of functions that get no group: fn(*inputs); on a rank by itself twice, so that what stays behind shows."""

import contextlib
import copy
import io
from typing import Any

import torch.distributed as dist

from grader.calling.watching_inputs import packed, watched


class SecondCall(RuntimeError):
    """A second call, with the same inputs, went another way than the first."""


def call(fn, inputs: dict[str, Any], group) -> Any:
    """Raises: SecondCall, where a list or dictionary is made and another call makes it otherwise."""
    once_more = copy.deepcopy(inputs)
    result = watched(fn, inputs)
    if isinstance(result, (list, dict)) and dist.get_world_size() == 1:
        first = packed(result)
        with contextlib.redirect_stdout(io.StringIO()):
            second = fn(*once_more.values())
        kind = type(result).__name__
        if second is result:
            raise SecondCall(f"Two calls returned the very same {kind}, so the second changes what the first one gave: make "
                             f"a new {kind} in each call, within the function.")
        if packed(second) != first:
            raise SecondCall("A second call with the same inputs returned something else: what stays from one call to the "
                             "next? A default argument that is a list or dictionary does, and so does a global.")
    return result
