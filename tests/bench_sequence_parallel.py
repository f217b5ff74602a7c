"""Step times of the reference block in pieces against torch's own SequenceParallel, ColwiseParallel and RowwiseParallel."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

from grader.exercises.references import functions_of
from tests.bench_training import ROUNDS, slowest
from utils.models.blocks import TransformerBlock
from utils.models.tiny import same_start

WORLD_SIZE, WANTED = 4, 1.25
POSITIONS, BATCH, SIZES = 256, 2, dict(dim=256, n_heads=8, p=0.0)


def torchs(block: TransformerBlock) -> nn.Module:
    """`block`, cut by torch's engine as cut_block cuts it, its activations along the sequence, dim 0."""
    plan = {"attention_norm": SequenceParallel(sequence_dim=0), "mlp_norm": SequenceParallel(sequence_dim=0)}
    plan |= {name: ColwiseParallel(input_layouts=Shard(0)) for name in ("qkv", "up")}
    plan |= {name: RowwiseParallel(output_layouts=Shard(0)) for name in ("out", "down")}
    return parallelize_module(block, init_device_mesh("cpu", (dist.get_world_size(),)), plan)


def bench_sequence_parallel(line: Callable, in_turn: Callable) -> None:
    """Forward, backward and the sum of replicated gradients of one block on 4 ranks; torch's sums its own."""
    wrap = functions_of("solutions", "08_sequence_parallel")["SequenceParallelBlock"]

    def race() -> list[float]:
        own, other = wrap(same_start(TransformerBlock, **SIZES)), torchs(same_start(TransformerBlock, **SIZES))
        x_PBD = torch.randn(POSITIONS // dist.get_world_size(), BATCH, SIZES["dim"], requires_grad=True)
        return in_turn(step_of(own, x_PBD, own.reduce_gradients), step_of(other, x_PBD, lambda: full(other)), rounds=ROUNDS)

    own_s, torchs_s = slowest(race, WORLD_SIZE)
    ratio = own_s / torchs_s
    line("a SequenceParallelBlock / torch's TP and SP, 256 × 2 × 256, 4 ranks", ratio, f"<= {WANTED}", ratio <= WANTED,
         f"{1e3 * own_s:.1f} ms against {1e3 * torchs_s:.1f} ms")


def step_of(block: nn.Module, x_PBD: torch.Tensor, finish: Callable[[], object]) -> Callable[[], None]:
    """A forward and a backward pass; finish() makes the replicated gradients whole."""

    def step() -> None:
        block.zero_grad()
        block(x_PBD).square().mean().backward()
        finish()

    return step


def full(block: nn.Module) -> None:
    """What is left of torch's LayerNorm gradients to be summed (those of a Partial placement)."""
    for norm in (block.attention_norm, block.mlp_norm):
        for p in norm.parameters():
            p.grad.full_tensor()
