"""A training run on a mesh of which PyTorch does the most: its pipeline schedule, its AdamW, its all-reduce.

Nothing is clipped, and the head has a weight of its own.  Shapes: B batch, T bytes of text, V vocabulary.
"""

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from utils.models.blocks import BlockGPT
from utils.models.mesh_stage import MeshStage
from utils.models.shards import cut_dim, piece
from utils.models.text import text_batch
from utils.models.tiny import same_start


def mesh_training(mesh: Mapping[str, dist.ProcessGroup], steps: int = 10, rows: int = 8, n_micro: int = 2,
                  average: bool = True, **shape: int) -> tuple[list[float], dict[str, Tensor]]:
    """The losses of some steps on text, the same on all ranks, and this rank's gradients of the first step, by name.

    mesh: this rank's groups along "dp", "pp" and "tp"; shape: as BlockGPT's options, with `length`.
    average: False for a mistake: the replicas' gradients are summed and not divided by their number.
    """
    dp, pp = mesh["dp"], mesh["pp"]
    n, place, last = dist.get_world_size(dp), dist.get_rank(dp), dist.get_world_size(pp) - 1
    stage = MeshStage(same_start(BlockGPT, 0, **shape), pp, mesh["tp"])
    schedule = ScheduleGPipe(PipelineStage(stage, dist.get_rank(pp), last + 1, torch.device("cpu"), group=pp), n_micro,
                             loss_fn=_mean_loss)
    optimizer, losses, first = torch.optim.AdamW(stage.parameters(), lr=3e-3), [], {}
    for step in range(steps):
        optimizer.zero_grad()
        own = text_batch(step, rows, shape["length"]).chunk(n)[place]
        loss = _pass_through(schedule, own, dist.get_rank(pp), last)
        for weight in stage.parameters():
            dist.all_reduce(weight.grad, group=dp)
            weight.grad /= n if average else 1
        first = first or {name: weight.grad.clone() for name, weight in stage.named_parameters()}
        optimizer.step()
        dist.broadcast(loss, group=pp, group_src=last)
        dist.all_reduce(loss, group=dp)
        losses.append(loss.item() / n)
    return losses, first


def gradient_distance(of_ranks: Sequence[Mapping[str, Tensor]], whole: Mapping[str, Tensor], n_tp: int) -> float:
    """The largest difference of any rank's gradient from its shard of one process's; tp is the innermost axis."""
    apart = 0.0
    for rank, own in enumerate(of_ranks):
        for name, gradient in own.items():
            dim = cut_dim(name)
            expected = whole[name] if dim is None else piece(whole[name], rank % n_tp, n_tp, dim)
            apart = max(apart, (gradient - expected).abs().max().item())
    return apart


def _pass_through(schedule: ScheduleGPipe, text_BT: Tensor, stage: int, last: int) -> Tensor:
    """All passes of this replica's rows.  Returns: their mean loss on the last stage, 0 elsewhere."""
    parts: list[Tensor] = []
    schedule.step(*[text_BT[:, :-1]] * (stage == 0), target=text_BT[:, 1:] if stage == last else None, losses=parts)
    return torch.stack([part.detach() for part in parts]).mean() if parts else torch.zeros(())


def _mean_loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    return F.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten())
