"""Step times of the reference tensor-parallel block against one of torch's ColwiseParallel and RowwiseParallel."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from grader.exercises.references import functions_of
from tests.bench_training import ROUNDS, WORLD_SIZE, slowest
from utils.models.tiny import TinyGPT, same_start

WANTED = 1.25
MODEL = dict(dim=256, n_heads=8, n_layers=1)
ROWS, LENGTH = 4, 64


def bench_tensor_parallel(line: Callable, in_turn: Callable) -> None:
    """Forward and backward of one transformer block in pieces, the reference's against torch's, on 4 ranks."""
    make = functions_of("solutions", "06_tensor_parallel")["make_tensor_parallel"]

    def race() -> list[float]:
        blocks = [split(same_start(TinyGPT, **MODEL), dist.group.WORLD).blocks[0] for split in (make, torchs_gpt)]
        return in_turn(*(passes_of(block) for block in blocks), rounds=ROUNDS)

    own_s, torchs_s = slowest(race, WORLD_SIZE)
    ratio = own_s / torchs_s
    line("a tensor-parallel block / torch's, 256 wide, 4 ranks", ratio, f"<= {WANTED}", ratio <= WANTED,
         f"{1e3 * own_s:.1f} ms against {1e3 * torchs_s:.1f} ms")


def passes_of(block: nn.Module) -> Callable[[], None]:
    """One pass forward and one backward of `block`, on the same input on every rank."""
    x_BTD = torch.randn(ROWS, LENGTH, MODEL["dim"], generator=torch.Generator().manual_seed(0)).requires_grad_()

    def step() -> None:
        block.zero_grad()
        x_BTD.grad = None
        block(x_BTD).sum().backward()

    return step


def torchs_gpt(model: TinyGPT, group: dist.ProcessGroup | None = None) -> TinyGPT:
    """The GPT in pieces by torch's classes; qkv's rows are sorted by rank first, as ColwiseParallel cuts neighbours."""
    n = dist.get_world_size(group)
    for block in model.blocks:
        rows = torch.arange(block.qkv.out_features).view(3, n, -1).transpose(0, 1).flatten()
        for p in block.qkv.parameters():
            p.data = p.data[rows].clone()
        block.n_heads //= n
        plan = {"qkv": ColwiseParallel(), "out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(block, init_device_mesh("cpu", (n,)), plan)
    return model
