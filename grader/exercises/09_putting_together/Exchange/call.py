"""How a rank calls Exchange."""

from typing import Any

import torch
from torch import Tensor

from grader.calling.sequences import BACKWARD, FORWARD
from grader.calling.splitting import go_back, laid_out
from utils.trace.spans import span


def call(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """received, came = function.apply(rows, counts, group), then back with the gradient weights → both, and that of rows.

    Between forward and backward it is applied to no rows, as in another layer: the first call's splits must not change.
    """
    rows, weights = (laid_out(inputs[name], inputs["transposed"]) for name in ("rows", "weights"))
    rows.requires_grad_()
    with span(FORWARD):
        received, came = function.apply(rows, inputs["counts"].clone(), group)
    function.apply(rows.detach()[:0], torch.zeros_like(inputs["counts"]), group)
    if isinstance(received, Tensor) and received.shape == weights.shape and received.requires_grad:
        with span(BACKWARD):
            go_back(received, weights)
    return {"received": received, "came": came, "drows": rows.grad}
