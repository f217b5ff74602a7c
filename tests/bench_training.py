"""Step times of the course's own wrappers against torch's, and of overlapped against naive reduction, in the same ranks."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from grader.exercises.references import functions_of
from utils import run_ranks
from utils.models.text import text_batch
from utils.models.tiny import DeepMLP, TinyGPT, next_byte_loss, same_start

WORLD_SIZE = 4
ROUNDS = 41
DDP_WANTED, FSDP_WANTED = 1.15, 1.25
WIDE, WIDE_ROWS = dict(dim=512, n_layers=8), 128  # 6.5 MiB of gradients in 16 tensors


def bench_data_parallel(line: Callable, in_turn: Callable) -> None:
    """A step of the reference DataParallel against DistributedDataParallel, the tiny GPT on 4 ranks."""
    wrap = functions_of("solutions", "02_data_parallel")["DataParallel"]

    def race() -> list[float]:
        tokens_BT = text_batch(dist.get_rank(), 4, 64)
        batch = tokens_BT[:, :-1], tokens_BT[:, 1:]
        own, torchs = wrap(same_start(TinyGPT)), nn.parallel.DistributedDataParallel(same_start(TinyGPT))
        return in_turn(step_of(own, batch, own.finish_gradient_synchronization), step_of(torchs, batch), rounds=ROUNDS)

    own_s, torchs_s = slowest(race, WORLD_SIZE)
    ratio = own_s / torchs_s
    line("a step of DataParallel / of torch's DDP, tiny GPT, 4 ranks", ratio, f"<= {DDP_WANTED}", ratio <= DDP_WANTED,
         f"{1e3 * own_s:.1f} ms against {1e3 * torchs_s:.1f} ms")


def bench_overlap(line: Callable, in_turn: Callable) -> None:
    """A step whose all-reduces begin in hooks against one that makes them one by one after the backward pass."""
    hook_up = functions_of("solutions", "02_data_parallel")["reduce_when_ready"]

    def race() -> list[float]:
        tokens_BT, world = text_batch(dist.get_rank(), WIDE_ROWS, 16), dist.group.WORLD
        batch = tokens_BT[:, :-1], tokens_BT[:, -1]
        naive, hooked = same_start(DeepMLP, **WIDE), same_start(DeepMLP, **WIDE)
        finish = hook_up(hooked, world)
        return in_turn(step_of(hooked, batch, finish), step_of(naive, batch, lambda: one_by_one(naive)), rounds=ROUNDS)

    overlapped_s, naive_s = slowest(race, WORLD_SIZE)
    ratio = overlapped_s / naive_s
    line("a step overlapped / one by one, MLP of 8 × 512, 4 ranks", ratio, "< 1", ratio < 1,
         f"{1e3 * overlapped_s:.1f} ms against {1e3 * naive_s:.1f} ms")


def bench_fully_shard(line: Callable, in_turn: Callable) -> None:
    """A step of the reference FullyShard against FSDP2 on every block and on the whole, the tiny GPT on 4 ranks."""
    wrap = functions_of("solutions", "05_zero3")["FullyShard"]

    def race() -> list[float]:
        tokens_BT = text_batch(dist.get_rank(), 4, 64)
        batch = tokens_BT[:, :-1], tokens_BT[:, 1:]
        own, torchs = wrap(same_start(TinyGPT)), same_start(TinyGPT)
        for block in torchs.blocks:
            fully_shard(block)
        fully_shard(torchs)
        return in_turn(step_of(own, batch, own.finish_gradient_synchronization), step_of(torchs, batch), rounds=ROUNDS)

    own_s, torchs_s = slowest(race, WORLD_SIZE)
    ratio = own_s / torchs_s
    line("a step of FullyShard / of torch's FSDP2, tiny GPT, 4 ranks", ratio, f"<= {FSDP_WANTED}", ratio <= FSDP_WANTED,
         f"{1e3 * own_s:.1f} ms against {1e3 * torchs_s:.1f} ms")


def step_of(model: nn.Module, batch: tuple, finish: Callable[[], object] = lambda: None) -> Callable[[], None]:
    """A training step of `model` on this rank's batch; finish() is called between the backward pass and AdamW."""
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        next_byte_loss(model(batch[0]), batch[1]).mean().backward()
        finish()
        optimizer.step()

    return step


def one_by_one(model: nn.Module) -> None:
    """The naive way: one blocking all-reduce for each gradient."""
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def slowest(race: Callable[[], list[float]], world_size: int) -> list[float]:
    """Each entrant's median, on the rank where it took longest; without trace and memory records."""
    return [max(times) for times in zip(*run_ranks(race, world_size, trace=False, memory=False).results, strict=True)]
