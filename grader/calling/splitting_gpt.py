"""The tiny GPT that is split, as the ranks and the one plain process both make it."""

from typing import Any

import torch

from utils.models.tiny import TinyGPT, same_start

WEIGHT = 15.0  # times the standard deviation of 0.02


def make_gpt(inputs: dict[str, Any]) -> TinyGPT:
    """The case's model; its blocks weigh more than at a usual start, no bias is 0 and no scale 1: whatever is lost shows."""
    model = same_start(TinyGPT, inputs["seed"], **inputs["model"]).to(getattr(torch, inputs["dtype"]))
    generator = torch.Generator().manual_seed(inputs["seed"])
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p += 0.1 * torch.randn(p.shape, generator=generator).to(p.dtype)
            elif name.startswith("blocks."):
                p *= WEIGHT
    return model
