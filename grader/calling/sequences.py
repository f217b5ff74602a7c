"""What calls of exercises about pieces of a sequence share: models, what stands in memory, what ranks mark."""

from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.sealing import with_state
from grader.calling.splitting import call_conjugate
from utils.models.blocks import BlockGPT, TransformerBlock
from utils.models.tiny import same_start

KEPT, NUMBERS = "bytes kept for backward", "numbers owned"
FORWARD, BACKWARD, REDUCE = "forward", "backward", "reduce"


def call_sequence_function(function: type[torch.autograd.Function], inputs: dict[str, Any], group) -> dict[str, Any]:
    """As any conjugate, with weights as the gradient of y."""
    return call_conjugate(function, inputs | {"dy": inputs["weights"]}, group)


def make_block(inputs: dict[str, Any]) -> TransformerBlock:
    """The plain block of a case, its LayerNorms not at their start, in float64 unless the case says otherwise."""
    block = same_start(TransformerBlock, inputs["block_seed"], dim=inputs["dim"], n_heads=inputs["heads"], p=inputs["p"])
    return with_state(_stirred(block, inputs["block_seed"]).to(getattr(torch, inputs.get("dtype", "float64"))), inputs)


def make_gpt(inputs: dict[str, Any]) -> BlockGPT:
    """The plain GPT of a case."""
    model = same_start(BlockGPT, inputs["model_seed"], length=inputs["length"], dim=inputs["dim"],
                       n_layers=inputs["layers"], n_heads=inputs["heads"])
    return with_state(_stirred(model, inputs["model_seed"]).double(), inputs)


def _stirred(module: nn.Module, seed: int) -> nn.Module:
    """LayerNorm's ones and zeros, and biases, would hide mistakes."""
    numbers = torch.Generator().manual_seed(seed)
    for p in module.parameters():
        if p.dim() == 1:
            p.data.add_(torch.randn(p.shape, generator=numbers) / 5)
    return module


def leaf(x: Tensor) -> Tensor:
    """A copy that gets a gradient."""
    return x.clone().requires_grad_()


def gradients_by_name(module: nn.Module) -> dict[str, Any]:
    """Name in the plain model → a copy of the gradient, or None."""
    return {plain_name(name): None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()}


def plain_name(name: str) -> str:
    """blocks.0.block.up.weight → blocks.0.up.weight, as the plain model has it."""
    return name.replace(".block.", ".")
