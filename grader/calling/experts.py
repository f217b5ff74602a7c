"""Inside a rank: the mixture of experts of a case."""

from typing import Any

import torch

from utils.models import same_start
from utils.models.experts import MoE

ROUTER_WEIGHT = 4.0  # times what a usual start gives: so that the experts' weights differ


def make_moe(inputs: dict[str, Any]) -> MoE:
    """The whole layer, the same on every rank that has the same seed, in the dtype of x."""
    names = ("inner", "n_experts", "k", "capacity")
    moe = same_start(MoE, inputs["seed"], dim=inputs["x"].shape[1], **{name: inputs[name] for name in names})
    with torch.no_grad():
        moe.router.weight *= ROUTER_WEIGHT
    return moe.to(inputs["x"].dtype)
