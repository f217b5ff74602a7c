"""One rank's part of a GPT on a mesh: some layers (pipeline), each cut among the ranks of a group (tensor parallelism).

Shapes: B batch, T bytes of text, D model, V vocabulary. The batch comes first at a stage's borders, as in TinyGPT.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from utils.models.blocks import BlockGPT, TransformerBlock
from utils.models.shards import cut_block
from utils.models.tiny import same_start


def tied_gpt(seed: int = 0, **options) -> BlockGPT:
    """A BlockGPT with weights drawn from `seed`, whose head is the embedding's own weight.  options: as BlockGPT's."""
    model = same_start(BlockGPT, seed, **options)
    model.head.weight = model.embedding.weight
    return model


def layers_of_stage(n_layers: int, n_stages: int, stage: int) -> range:
    """Consecutive layers; the first n_layers % n_stages stages have one more.

    Raises: ValueError if a stage would have none.
    """
    if not 0 < n_stages <= n_layers:
        raise ValueError(f"{n_layers} layers cannot be cut into {n_stages} stages: choose 1 to {n_layers} stages")
    each, more = divmod(n_layers, n_stages)
    start = stage * each + min(stage, more)
    return range(start, start + each + (stage < more))


def stage_of(name: str, n_layers: int, n_stages: int) -> int:
    """The stage that has the parameter called `name` in the whole model.

    The first one has embedding and positions, the last one norm and head (a tied head too: then both have the weight).
    Raises: ValueError if the model has no such layer.
    """
    first, *rest = name.split(".")
    if first in ("embedding", "positions"):
        return 0
    if first != "blocks":
        return n_stages - 1
    for stage in range(n_stages):
        if int(rest[0]) in layers_of_stage(n_layers, n_stages, stage):
            return stage
    raise ValueError(f"{name!r}: a model of {n_layers} layers has blocks.0 to blocks.{n_layers - 1}")


class MeshStage(nn.Module):
    """Stage `dist.get_rank(pp)` of a BlockGPT; in its blocks qkv, up, out and down are cut among the ranks of `tp`.

    Inside, f stands before qkv and up, g behind out and down: what comes in and what goes out, forward and backward, is
    whole, and the same on all ranks of `tp`. So are the gradients of the parameters that are not cut.
    Parameters keep the names that they have in the whole model; utils.models.shards.cut_dim tells which are cut.
    Shapes: the first stage takes bytes (B, T), the others (B, T, D); the last gives logits (B, T, V), the others (B, T, D).
    Cost: in each block two all-reduces of (T, B, D) forward and two backward, in `tp`.
    Raises: ValueError if the stages are more than the layers, if the ranks do not divide the heads, or for dropout.
    """

    def __init__(self, model: BlockGPT, pp: dist.ProcessGroup | None, tp: dist.ProcessGroup | None):
        super().__init__()
        if any(block.p for block in model.blocks):
            raise ValueError("dropout would differ from one process's: make the model with p=0")
        n_stages, stage = dist.get_world_size(pp), dist.get_rank(pp)
        self.tp, self.dim = tp, model.norm.weight.shape[0]
        if stage == 0:
            self.embedding, self.positions = model.embedding, model.positions
        self.blocks = nn.ModuleDict({str(layer): cut_block(model.blocks[layer], dist.get_rank(tp), dist.get_world_size(tp))
                                     for layer in layers_of_stage(len(model.blocks), n_stages, stage)})
        if stage == n_stages - 1:
            self.norm, self.head = model.norm, model.head

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self, "embedding"):
            x = self.embedding(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        x_TBD = x.transpose(0, 1)
        for block in self.blocks.values():
            x_TBD = _through(block, x_TBD, self.tp)
        y_BTD = x_TBD.transpose(0, 1).contiguous()
        return self.head(self.norm(y_BTD)) if hasattr(self, "head") else y_BTD

    def place_for(self, tokens_BT: Tensor) -> Tensor:
        """An empty tensor like what the stage before sends for these bytes: (B, T) → (B, T, D)."""
        weight = next(self.parameters())
        return torch.empty(*tokens_BT.shape, self.dim, dtype=weight.dtype, device=weight.device)

    @property
    def tied_weight(self) -> nn.Parameter | None:
        """The weight of the embedding or of the head; None on a stage that has neither."""
        part = getattr(self, "embedding", getattr(self, "head", None))
        return None if part is None else part.weight


def _through(block: TransformerBlock, x_TBD: Tensor, tp: dist.ProcessGroup | None) -> Tensor:
    """TransformerBlock.forward, where the block has this rank's rows of qkv and up, and columns of out and down."""
    heads = block.attention(block.qkv(_SumOneWay.apply(block.attention_norm(x_TBD), False, tp)))
    x_TBD = x_TBD + _rows(block.out, heads, tp)
    wide = block.gelu(block.up(_SumOneWay.apply(block.mlp_norm(x_TBD), False, tp)))
    return x_TBD + _rows(block.down, wide, tp)


def _rows(layer: nn.Linear, x: Tensor, tp: dist.ProcessGroup | None) -> Tensor:
    """A row-parallel layer: the bias is whole, and added once, to the sum."""
    return _SumOneWay.apply(F.linear(x, layer.weight), True, tp) + layer.bias


class _SumOneWay(torch.autograd.Function):
    """Sums over the ranks of a group on the way forward (g) or on the way back (f), and passes the other way."""

    @staticmethod
    def forward(ctx, x: Tensor, is_forward: bool, group: dist.ProcessGroup | None) -> Tensor:
        ctx.sums_back, ctx.of = not is_forward, group
        return _summed(x, group) if is_forward else x

    @staticmethod
    def backward(ctx, dy: Tensor) -> tuple[Tensor, None, None]:
        return _summed(dy, ctx.of) if ctx.sums_back else dy, None, None


def _summed(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    if dist.get_world_size(group) == 1:
        return x
    total = x.contiguous().clone()
    dist.all_reduce(total, group=group)
    return total
