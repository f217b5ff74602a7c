"""The plain training loop, for curves that ranks' curves are held against."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def adamw_losses(model: nn.Module, loss_of: Callable[[int], Tensor], steps: int,
                 before_update: Callable[[], object] = lambda: None,
                 after_update: Callable[[], object] = lambda: None) -> list[float]:
    """The losses of some steps of AdamW with a learning rate of 0.003.

    loss_of(step): what is trained in it; before_update(): called where gradients are there, and weights not changed yet.
    """
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=3e-3), []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        before_update()
        optimizer.step()
        after_update()
        losses.append(loss.item())
    return losses
