"""How a rank calls local_dropout."""

from collections.abc import Callable
from typing import Any

import torch

from grader.calling.sequences import RANDOM_CHANGED
from grader.calling.splitting import laid_out
from grader.calling.watching_inputs import watched
from utils.trace.spans import mark


def call(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(x, p, seed, group) twice, the second time without a graph → both results and the gradient of Σ weights·y.

    The first x lies transposed in memory. Marks whether the random state has changed.
    """
    inputs, weights = {name: inputs[name] for name in ("x", "p", "seed")}, inputs["weights"]
    x, state = laid_out(inputs["x"], transposed=True).requires_grad_(), torch.get_rng_state()
    y = fn(x, inputs["p"], inputs["seed"], group)
    with torch.no_grad():  # as where a layer is to be run again in backward
        again = watched(fn, {**inputs, "x": inputs["x"].clone()}, group)
    mark(RANDOM_CHANGED, changed=not torch.equal(state, torch.get_rng_state()))
    (y * weights).sum().backward()
    return {"y": y, "again": again, "dx": x.grad}
