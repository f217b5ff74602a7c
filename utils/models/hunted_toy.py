"""A program that differs from the plain process, so that readers of the bug hunt see how that looks. It is no case."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from utils.models.hunted import SGD, note, small_mlp


def toy(batches: list[list[Tensor]], lr: float) -> list[dict]:
    """Train on this rank's share of each batch. In step 1, rank 1 uses twice the gradient of head.bias."""
    model, notes = small_mlp(), []
    optimizer = SGD(model.parameters(), lr)
    for step, (x_BI, y_BO) in enumerate(batches):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x_BI), y_BO)
        loss.backward()
        _average([p.grad for p in model.parameters()])
        if step == 1 and dist.get_rank() == 1:
            model.head.bias.grad *= 2
        optimizer.step()
        notes.append(note(model, loss))
    return notes


def _average(gradients: list[Tensor]) -> None:
    """In place of each gradient its mean over the ranks."""
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, mean in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))
