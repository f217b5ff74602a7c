"""How a rank calls Recompute."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.rings import RUN, layer, trained
from grader.calling.sequences import KEPT
from grader.calling.weighing import END, weigh
from utils.trace.memory import held_bytes
from utils.trace.spans import mark


def call(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """A chain of layers, y = function.apply(run, y, up, down), and its gradients; marks each run, and what then stands."""
    torch.manual_seed(inputs["seed"])
    x_BD, weights = trained(inputs)
    y_BD, start = x_BD, held_bytes()
    for number, (up_DF, down_FD) in enumerate(weights):
        y_BD = 1.0 * function.apply(_marked(number, up_DF, down_FD, inputs["p"]), y_BD, up_DF, down_FD)  # which is let go
    mark(KEPT, bytes=held_bytes() - start)
    weigh(inputs, END)
    after_forward = torch.rand(3)
    needed = [one for one in dict.fromkeys((x_BD, *itertools.chain(*weights))) if one.requires_grad]
    found = torch.autograd.grad((y_BD * inputs["weights"]).sum(), needed, allow_unused=True)  # what backward returns
    gradients = {one: gradient if gradient is None or one.grad is None else gradient + one.grad  # added on the way: counts
                 for one, gradient in zip(needed, found, strict=True)}
    return {"y": y_BD, "dx": gradients.get(x_BD), "dparameters": [[gradients.get(p) for p in pair] for pair in weights],
            "random after forward": after_forward, "random after backward": torch.rand(3)}


def _marked(number: int, up_DF: Tensor, down_FD: Tensor, p: float) -> Callable[[Tensor], Tensor]:
    def run(x_BD: Tensor) -> Tensor:
        mark(RUN, layer=number)
        return layer(x_BD, up_DF, down_FD, p)

    return run
