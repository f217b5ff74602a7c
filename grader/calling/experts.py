"""Inside a rank: the mixture of experts of a case."""

from typing import Any

import torch
from torch import Tensor

from grader.evidence.case import SEALED
from utils.models import same_start
from utils.models.experts import MoE

ROUTER_WEIGHT = 4.0  # times what a usual start gives: so that the experts' weights differ


def make_moe(inputs: dict[str, Any]) -> MoE:
    """The whole layer, the same on every rank that has the same seed, in the dtype of x; in a sealed case with its state."""
    names = ("inner", "n_experts", "k", "capacity")
    moe = same_start(MoE, inputs["seed"], dim=inputs["x"].shape[1], **{name: inputs[name] for name in names})
    with torch.no_grad():
        moe.router.weight *= ROUTER_WEIGHT
    moe.to(inputs["x"].dtype)
    if SEALED in inputs:
        moe.load_state_dict(each_expert(inputs["state"]))
    return moe


def each_expert(stacked: dict[str, Tensor]) -> dict[str, Tensor]:
    """experts.up.weight (E, …) → experts.0.up.weight (…), and so on; all else as it is."""
    named = {}
    for name, tensor in stacked.items():
        first, _, rest = name.partition(".")
        named |= {f"experts.{e}.{rest}": one for e, one in enumerate(tensor)} if first == "experts" else {name: tensor}
    return named


def stacked_experts(moe: MoE) -> dict[str, Tensor]:
    """The state of a layer, with the tensors of all experts in one."""
    experts = [expert.state_dict() for expert in moe.experts]
    return {"router.weight": moe.router.weight.detach()} | {
        f"experts.{name}": torch.stack([expert[name] for expert in experts]) for name in experts[0]}
