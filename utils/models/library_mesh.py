"""A training run on a mesh of which PyTorch does the most: its pipeline schedule, its AdamW, its all-reduce.

Nothing is clipped, and the head has a weight of its own.  Shapes: B batch, T bytes of text, V vocabulary.
"""

from collections.abc import Mapping

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from utils.models.blocks import BlockGPT
from utils.models.mesh_stage import MeshStage
from utils.models.text import text_batch
from utils.models.tiny import same_start


def mesh_losses(mesh: Mapping[str, dist.ProcessGroup], steps: int = 10, rows: int = 8, n_micro: int = 2,
                **shape: int) -> list[float]:
    """The losses of some steps on text, the same on all ranks.

    mesh: this rank's groups along "dp", "pp" and "tp"; shape: as BlockGPT's options, with `length`.
    """
    dp, pp = mesh["dp"], mesh["pp"]
    n, place, last = dist.get_world_size(dp), dist.get_rank(dp), dist.get_world_size(pp) - 1
    stage = MeshStage(same_start(BlockGPT, 0, **shape), pp, mesh["tp"])
    schedule = ScheduleGPipe(PipelineStage(stage, dist.get_rank(pp), last + 1, torch.device("cpu"), group=pp), n_micro,
                             loss_fn=_mean_loss)
    optimizer, losses = torch.optim.AdamW(stage.parameters(), lr=3e-3), []
    for step in range(steps):
        optimizer.zero_grad()
        own = text_batch(step, rows, shape["length"]).chunk(n)[place]
        loss = _pass_through(schedule, own, dist.get_rank(pp), last)
        for weight in stage.parameters():
            dist.all_reduce(weight.grad, group=dp)
            weight.grad /= n
        optimizer.step()
        dist.broadcast(loss, group=pp, group_src=last)
        dist.all_reduce(loss, group=dp)
        losses.append(loss.item() / n)
    return losses


def _pass_through(schedule: ScheduleGPipe, text_BT: Tensor, stage: int, last: int) -> Tensor:
    """All passes of this replica's rows.  Returns: their mean loss on the last stage, 0 elsewhere."""
    parts: list[Tensor] = []
    schedule.step(*[text_BT[:, :-1]] * (stage == 0), target=text_BT[:, 1:] if stage == last else None, losses=parts)
    return torch.stack([part.detach() for part in parts]).mean() if parts else torch.zeros(())


def _mean_loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    return F.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten())
