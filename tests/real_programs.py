"""Programs as people write them: torch's wrappers and engines, and patterns of well-known trainers, each a few lines.

Each is run on real ranks and simulated; what the two should have in common is for tests/test_real_programs.py to say.
`python -m tests.real_programs [NAME …]` prints, for each, what came of both.
"""

import contextlib
import copy
import io
import logging
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as dcp
import torch.distributed.nn.functional as differentiable
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.func import functional_call, grad, vmap
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, TensorDataset, get_worker_info

from utils import run_ranks, simulate_ranks


@dataclass(frozen=True)
class Program:
    """fn(rank, world_size), for so many ranks. refused: a part of the sentence with which a simulation refuses it."""

    fn: Callable[[int, int], object]
    world_size: int
    refused: str = ""


PROGRAMS: dict[str, Program] = {}
NUMBERS = "tensor's numbers"


def program(world_size: int = 2, refused: str = ""):
    def add(fn):
        PROGRAMS[fn.__name__] = Program(fn, world_size, refused)
        return fn
    return add


def mlp(width: int = 8, layers: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(layers)))


def batch(rank: int, rows: int = 4, width: int = 8) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rank))


def train(model: nn.Module, rank: int, steps: int = 2, optimizer: torch.optim.Optimizer | None = None,
          width: int = 8) -> None:
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        model(batch(rank, width=width)).square().mean().backward()
        optimizer.step()


# ── DistributedDataParallel ──


@program(3)
def ddp(rank, world_size):
    train(DistributedDataParallel(mlp()), rank)


@program()
def ddp_many_buckets(rank, world_size):
    """Rebuilt after the first step in the order in which gradients came."""
    train(DistributedDataParallel(mlp(64, 4), bucket_cap_mb=0.02, gradient_as_bucket_view=True), rank, steps=3, width=64)


@program()
def ddp_no_sync(rank, world_size):
    model = DistributedDataParallel(mlp())
    with model.no_sync():
        model(batch(rank)).sum().backward()
    model(batch(rank + world_size)).sum().backward()


@program()
def ddp_without_first_broadcast(rank, world_size):
    train(DistributedDataParallel(mlp(), init_sync=False), rank)


@program()
def ddp_batch_norm(rank, world_size):
    """Buffers are broadcast before each forward pass."""
    train(DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))), rank)


@program()
def ddp_unused_parameters(rank, world_size):
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return self.left(x) if rank % 2 else self.left(x) + self.right(x)

    train(DistributedDataParallel(Branches(), find_unused_parameters=True), rank)


@program()
def ddp_static_graph_and_checkpointing(rank, world_size):
    class Recomputed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = mlp(), mlp()

        def forward(self, x):
            return checkpoint(self.second, checkpoint(self.first, x, use_reentrant=False), use_reentrant=False)

    train(DistributedDataParallel(Recomputed(), static_graph=True), rank, steps=4)


@program()
def ddp_autocast(rank, world_size):
    model = DistributedDataParallel(mlp())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(batch(rank)).float().square().mean()
    loss.backward()


@program()
def ddp_fp16_hook(rank, world_size):
    model = DistributedDataParallel(mlp())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    train(model, rank)


@program()
def ddp_with_join(rank, world_size):
    """Rank 1 has one batch less."""
    model = DistributedDataParallel(mlp())
    with Join([model]):
        for number in range(3 - rank):
            model(batch(number)).sum().backward()


@program()
def ddp_with_sharded_optimizer(rank, world_size):
    model = DistributedDataParallel(mlp())
    train(model, rank, optimizer=ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3))


@program(4)
def ddp_on_a_half_of_the_ranks(rank, world_size):
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    train(DistributedDataParallel(mlp(), process_group=halves[rank // 2]), rank)


@program()
def ddp_compiled(rank, world_size):
    train(DistributedDataParallel(torch.compile(mlp(), backend="eager")), rank, steps=1)


# ── FSDP ──


@program()
def fsdp1(rank, world_size):
    train(FullyShardedDataParallel(mlp(), device_id=torch.device("cpu")), rank)


@program()
def fsdp1_shard_grad_op(rank, world_size):
    strategy = ShardingStrategy.SHARD_GRAD_OP
    train(FullyShardedDataParallel(mlp(), sharding_strategy=strategy, device_id=torch.device("cpu")), rank)


def sharded_by_layer(model: nn.Sequential, **options) -> nn.Module:
    for layer in model:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


@program(4)
def fsdp2(rank, world_size):
    train(sharded_by_layer(mlp(), mesh=init_device_mesh("cpu", (world_size,))), rank)


@program()
def fsdp2_default_mesh(rank, world_size):
    train(sharded_by_layer(mlp()), rank)


@program(4)
def hybrid_sharding(rank, world_size):
    train(sharded_by_layer(mlp(), mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))), rank)


@program()
def fsdp2_clipped(rank, world_size):
    model = sharded_by_layer(mlp())
    model(batch(rank)).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


@program()
def fsdp2_mixed_precision(rank, world_size):
    train(sharded_by_layer(mlp(), mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32)), rank)


@program()
def fsdp2_accumulated(rank, world_size):
    model = sharded_by_layer(mlp())
    for last in (False, True):
        model.set_requires_gradient_sync(last)
        model(batch(rank)).sum().backward()


# ── DTensor ──


class Block(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


@program()
def tensor_parallel(rank, world_size):
    torch.manual_seed(0)
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    train(parallelize_module(Block(), init_device_mesh("cpu", (world_size,)), plan), 0)


@program()
def sequence_parallel(rank, world_size):
    torch.manual_seed(0)
    plan = {"norm": SequenceParallel(sequence_dim=0), "up": ColwiseParallel(input_layouts=Shard(0)),
            "down": RowwiseParallel(output_layouts=Shard(0))}
    block = parallelize_module(Block(), init_device_mesh("cpu", (world_size,)), plan)
    x = distribute_tensor(batch(0), init_device_mesh("cpu", (world_size,)), [Shard(0)])
    block.norm(x)
    block.down(F.gelu(block.up(batch(rank)))).sum().backward()


@program(4)
def fsdp2_and_tensor_parallel(rank, world_size):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    block = parallelize_module(Block(), mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    train(fully_shard(block, mesh=mesh["dp"]), rank // 2)


@program(3)
def redistributed(rank, world_size):
    mesh = init_device_mesh("cpu", (world_size,))
    rows = distribute_tensor(torch.arange(24.0).view(6, 4), mesh, [Shard(0)])
    columns = rows.redistribute(placements=[Shard(1)])
    whole = columns.redistribute(placements=[Replicate()])
    return (whole.to_local() + rows.full_tensor()).shape


@program()
def dtensor_of_local_parts(rank, world_size):
    mesh = init_device_mesh("cpu", (world_size,))
    a = DTensor.from_local(torch.ones(2, 4), mesh, [Shard(0)])
    return (a @ a.T).sum().full_tensor().shape


@program()
def vocabulary_parallel_loss(rank, world_size):
    mesh = init_device_mesh("cpu", (world_size,))
    logits = distribute_tensor(torch.randn(4, 8, generator=torch.Generator().manual_seed(0)), mesh, [Shard(1)])
    logits.requires_grad_()
    with loss_parallel():
        F.cross_entropy(logits, torch.arange(4)).backward()


# ── pipelining ──


def pipeline(schedule_class: type, rank: int, world_size: int, stages_per_rank: int = 1, micro_batches: int = 4) -> None:
    torch.manual_seed(0)
    n_stages = stages_per_rank * world_size
    stages = [PipelineStage(nn.Linear(8, 8), number, n_stages, torch.device("cpu"))
              for number in range(rank, n_stages, world_size)]
    single = stages_per_rank == 1
    schedule = schedule_class(stages[0] if single else stages, micro_batches, loss_fn=F.mse_loss)
    given = (batch(0, 8),) if rank == 0 else ()
    targets = {"target": batch(1, 8)} if rank == world_size - 1 else {}
    for _ in range(2):
        schedule.step(*given, **targets)


@program()
def pipeline_gpipe(rank, world_size):
    pipeline(ScheduleGPipe, rank, world_size)


@program(3)
def pipeline_1f1b(rank, world_size):
    pipeline(Schedule1F1B, rank, world_size)


@program()
def pipeline_interleaved(rank, world_size):
    pipeline(ScheduleInterleaved1F1B, rank, world_size, stages_per_rank=2)


@program()
def pipeline_zero_bubble(rank, world_size):
    pipeline(ScheduleInterleavedZeroBubble, rank, world_size, stages_per_rank=2)


# ── optimizers and averaging ──


@program(3)
def sharded_optimizer(rank, world_size):
    model = mlp()
    train(model, rank, optimizer=ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3))


@program()
def model_averaging(rank, world_size):
    model, averager = mlp(), PeriodicModelAverager(period=2)
    for _ in range(4):
        train(model, rank, steps=1, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        averager.average_parameters(model.parameters())


@program()
def flat_gradients(rank, world_size):
    """One all-reduce of all gradients, with an average, as many trainers have it."""
    model = mlp()
    model(batch(rank)).sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch._utils._flatten_dense_tensors(gradients)
    dist.all_reduce(flat, op=dist.ReduceOp.AVG)
    for gradient, averaged in zip(gradients, torch._utils._unflatten_dense_tensors(flat, gradients), strict=True):
        gradient.copy_(averaged)


@program()
def hooks_and_handles(rank, world_size):
    model, handles = mlp(), []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda parameter: handles.append(dist.all_reduce(parameter.grad, async_op=True)))
    model(batch(rank)).sum().backward()
    for handle in handles:
        handle.wait()


# ── checkpoints, compiling, loading, logging ──


@program()
def recomputed_layer_with_all_reduce(rank, world_size):
    def layer(x):
        return differentiable.all_reduce(x.square())

    checkpoint(layer, batch(rank).requires_grad_(), use_reentrant=False).sum().backward()


@program()
def compiled_with_collective(rank, world_size):
    @torch.compile(backend="eager")
    def step(x):
        return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1

    return step(torch.ones(4)).shape


@program(refused=NUMBERS)
def distributed_checkpoint(rank, world_size):
    model = sharded_by_layer(mlp())
    folder = [tempfile.gettempdir() + f"/dcp-{os.getppid()}" if rank == 0 else None]
    dist.broadcast_object_list(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"model": model.state_dict()}, checkpoint_id=folder[0])


@program()
def data_loader(rank, world_size):
    data = TensorDataset(torch.randn(16, 8), torch.randn(16, 8))
    sampler = DistributedSampler(data, shuffle=True)
    model = DistributedDataParallel(mlp())
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=4, sampler=sampler):
            F.mse_loss(model(x), y).backward()


@program()
def data_loader_with_workers(rank, world_size):
    data = TensorDataset(torch.arange(16.0).view(16, 1))
    for x, in DataLoader(data, batch_size=4, sampler=DistributedSampler(data), num_workers=1):
        dist.all_reduce(x)


@program()
def logger(rank, world_size):
    """A log line has the loss in it, averaged over ranks; nothing else depends on it."""
    lines = logging.getLogger("trainer")
    lines.addHandler(logging.StreamHandler(io.StringIO()))
    lines.setLevel(logging.INFO)
    model = mlp()
    total = 0.0
    for step in range(2):
        loss = model(batch(rank)).square().mean()
        loss.backward()
        average = loss.detach().clone()
        dist.all_reduce(average, op=dist.ReduceOp.AVG)
        total += average.item()
        lines.info("step %d loss %.3f", step, average.item())
        print(f"step {step}: loss {loss:.3f}, average {average.item():.3f}, so far {total / (step + 1):8.4f}",
              file=io.StringIO())


@program(refused=NUMBERS)
def stops_at_nan(rank, world_size):
    loss = mlp()(batch(rank)).mean()
    if torch.isnan(loss):
        return
    dist.all_reduce(loss.detach())


@program(refused=NUMBERS)
def background_writer(rank, world_size):
    """A thread that writes the checkpoint while the ranks go on."""
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(torch.save, torch.ones(1000), io.BytesIO())
        dist.all_reduce(torch.ones(4))
        written.result()


# ── objects, futures, groups ──


@program(3)
def objects(rank, world_size):
    everybody = [None] * world_size
    dist.all_gather_object(everybody, {"rank": rank, "name": "rank " * rank})
    settings = [{"lr": 1e-3, "layers": [1, 2]}] if rank == 0 else [None]
    dist.broadcast_object_list(settings, src=0)
    dist.gather_object(rank, [None] * world_size if rank == 1 else None, dst=1)
    mine = [None]
    dist.scatter_object_list(mine, ["a", "bb", "ccc"] if rank == 0 else None, src=0)
    return settings[0]["lr"]


@program()
def coalesced(rank, world_size):
    parts = [torch.ones(4), torch.ones(2)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for part in parts:
            dist.all_reduce(part)
    manager.wait()


@program()
def futures(rank, world_size):
    x = torch.ones(4)
    work = dist.all_reduce(x, async_op=True)
    halved = work.get_future().then(lambda future: future.value()[0] / world_size)
    halved.wait()
    return x.shape


@program()
def ends_its_group(rank, world_size):
    dist.all_reduce(torch.ones(4))
    dist.barrier()
    dist.destroy_process_group()


@program()
def monitored_barrier(rank, world_size):
    dist.monitored_barrier()
    dist.all_reduce(torch.ones(1))


@program(4)
def subgroups(rank, world_size):
    mine, _ = dist.new_subgroups(2)
    dist.all_reduce(torch.ones(4), group=mine)
    other, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    dist.broadcast(torch.ones(4), src=rank % 2, group=other)


@program(8)
def megatron_grid(rank, world_size):
    """Tensor-, pipeline- and data-parallel groups by enumeration, every rank making all of them."""
    tp, pp = 2, 2
    dp = world_size // (tp * pp)
    groups = {}
    for i in range(pp):
        for j in range(tp):
            ranks = list(range(i * tp * dp + j, (i + 1) * tp * dp, tp))
            made = dist.new_group(ranks)
            if rank in ranks:
                groups["dp"] = made
    for start in range(0, world_size, tp):
        made = dist.new_group(range(start, start + tp))
        if rank in range(start, start + tp):
            groups["tp"] = made
    for start in range(world_size // pp):
        ranks = list(range(start, world_size, world_size // pp))
        made = dist.new_group(ranks)
        if rank in ranks:
            groups["pp"] = made
    for group in groups.values():
        dist.all_reduce(torch.ones(2), group=group)


@program(8)
def grid_of_a_tensor(rank, world_size):
    """Where am I in the grid: from a tensor of ranks, whose numbers are known."""
    grid = torch.arange(world_size).view(2, 2, 2)
    dp, pp, tp = (grid == rank).nonzero().flatten().tolist()
    assert torch.allclose(grid[dp, pp, tp].float(), torch.tensor(float(rank)))
    tp_group = dist.new_subgroups_by_enumeration([grid[i, j, :].tolist() for i in range(2) for j in range(2)])[0]
    dp_group = dist.new_subgroups_by_enumeration([grid[:, i, j].tolist() for i in range(2) for j in range(2)])[0]
    dist.all_reduce(torch.ones(tp + 1, dtype=torch.float32)[:1], group=tp_group)
    dist.all_reduce(torch.ones(2), group=dp_group)


# ── patterns of their own ──


@program(3)
def functional_collectives(rank, world_size):
    x = torch.ones(6, 2)
    whole = functional.all_gather_tensor(x, 0, dist.group.WORLD)
    mine = functional.reduce_scatter_tensor(whole, "sum", 0, dist.group.WORLD)
    spread = functional.all_to_all_single(mine, [2, 2, 2], [2, 2, 2], dist.group.WORLD)
    return functional.broadcast(functional.all_reduce(spread, "avg", dist.group.WORLD), 0, dist.group.WORLD).sum().shape


@program(3)
def differentiable_collectives(rank, world_size):
    x = torch.ones(3, 2, requires_grad=True)
    (differentiable.all_reduce(x).sum() + differentiable.broadcast(x, 0).sum()).backward()


@program(4)
def ring_attention(rank, world_size):
    q, k, v = (torch.randn(2, 8, 4) for _ in range(3))
    out = torch.zeros_like(q)
    for step in range(world_size):
        if step < world_size - 1:
            coming = torch.empty_like(k), torch.empty_like(v)
            works = dist.batch_isend_irecv([
                dist.P2POp(dist.isend, k, (rank + 1) % world_size), dist.P2POp(dist.isend, v, (rank + 1) % world_size),
                dist.P2POp(dist.irecv, coming[0], (rank - 1) % world_size),
                dist.P2POp(dist.irecv, coming[1], (rank - 1) % world_size)])
        out = out + torch.softmax(q @ k.mT, -1) @ v
        if step < world_size - 1:
            for work in works:
                work.wait()
            k, v = coming


@program(3)
def experts_with_known_splits(rank, world_size):
    """Rank i sends i + j + 1 tokens to rank j."""
    sent = [rank + other + 1 for other in range(world_size)]
    tokens, received = torch.randn(sum(sent), 4), torch.empty(sum(sent), 4)
    dist.all_to_all_single(received, tokens, sent, sent)
    dist.all_to_all_single(torch.empty_like(tokens), F.gelu(received), sent, sent)


@program(refused=NUMBERS)
def experts_by_routing(rank, world_size):
    choice = torch.randn(8, world_size).argmax(-1)
    counts = torch.bincount(choice, minlength=world_size)
    coming = torch.empty_like(counts)
    dist.all_to_all_single(coming, counts)
    received = torch.empty(int(coming.sum()), 4)
    dist.all_to_all_single(received, torch.randn(8, 4)[choice.argsort()], coming.tolist(), counts.tolist())


@program(3)
def rooted(rank, world_size):
    x = torch.ones(4)
    dist.broadcast(x, 1)
    dist.reduce(x, 2)
    dist.gather(x, [torch.empty(4) for _ in range(world_size)] if rank == 0 else None, 0)
    dist.scatter(x, [torch.ones(4) for _ in range(world_size)] if rank == 0 else None, 0)
    dist.all_gather([torch.empty(4) for _ in range(world_size)], x)


@program(3)
def from_anybody(rank, world_size):
    if rank:
        dist.send(torch.ones(2), 0)
    else:
        for _ in range(world_size - 1):
            dist.recv(torch.empty(2))


@program()
def exponential_average(rank, world_size):
    """A teacher that follows the student, and a schedule of the learning rate."""
    model = mlp()
    teacher = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(2):
        model(batch(rank)).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.1)


class Shares(IterableDataset):
    """Each worker has its share of 7 rows, each of another length."""

    def __iter__(self):
        about = get_worker_info()
        return (torch.ones(row + 1) for row in range(about.id, 7, about.num_workers))


@program()
def rows_from_workers(rank, world_size):
    for row in DataLoader(Shares(), batch_size=None, num_workers=3):
        dist.all_reduce(row)


class Augmented(Dataset):
    """Rows that a worker's random numbers change."""

    def __len__(self):
        return 8

    def __getitem__(self, row):
        return random.randint(1, 9), int(np.random.randint(1, 9)), torch.randint(1, 9, (1,)).item(), get_worker_info().id


@program()
def random_numbers_of_workers_and_of_the_rank(rank, world_size):
    torch.manual_seed(3)
    random.seed(1)
    for augmented in DataLoader(Augmented(), batch_size=2, num_workers=3, shuffle=True):
        dist.all_reduce(torch.ones(sum(int(numbers.sum()) for numbers in augmented)))
    dist.all_reduce(torch.ones(random.randint(1, 99) + torch.randint(1, 99, (1,)).item()))


@program()
def initialised_within_bounds(rank, world_size):
    torch.manual_seed(0)
    nn.init.trunc_normal_(nn.Linear(8, 8).weight, std=0.02)
    dist.all_reduce(torch.ones(torch.randint(1, 99, (1,)).item()))


@program()
def recurrent_model_in_inference(rank, world_size):
    with torch.inference_mode():
        dist.all_reduce(nn.LSTM(8, 8, 2)(torch.randn(2, 5, 8))[0])


@program()
def scaled_loss(rank, world_size):
    weights = nn.Parameter(torch.ones(3))
    optimizer, scaler = torch.optim.SGD([weights], lr=0.1), torch.amp.GradScaler("cpu")
    scaler.scale(weights.sum()).backward()
    dist.all_reduce(weights.grad)
    scaler.step(optimizer)
    scaler.update()
    dist.all_reduce(weights.data)


@dataclass
class Metrics:
    """Of the program's own."""

    step: int
    loss: float


@program()
def losses_within_objects(rank, world_size):
    metrics = [None] * world_size
    dist.all_gather_object(metrics, Metrics(rank + 1, torch.randn(3).mean().item()))
    dist.all_reduce(torch.ones(sum(one.step for one in metrics)))
    print(f"{sum(one.loss for one in metrics):.3f}")


@program()
def numbers_that_change_hands(rank, world_size):
    """By data, by a list of tensors, by memory shared with an array, and between ranks in uneven parts."""
    count = torch.zeros(1, dtype=torch.int64)
    count.data = torch.tensor([3])
    torch._foreach_add_([count], [torch.tensor([2])])
    array = np.arange(rank + 2)
    torch.from_numpy(array).add_(1)
    ids, sizes, coming = torch.as_tensor(array), [1, rank + 1], torch.empty(2, dtype=torch.int64)
    dist.all_to_all_single(coming, torch.tensor(sizes))
    mine = torch.empty(int(coming.sum()), dtype=torch.int64)
    dist.all_to_all_single(mine, ids, coming.tolist(), sizes)
    dist.broadcast(mine[:1], 0)
    dist.all_reduce(torch.ones(int(count) + int(mine[0]) + int(array[0])))


@program()
def addresses(rank, world_size):
    model, seen = mlp(), set()
    for parameter in model.parameters():
        if parameter.untyped_storage().data_ptr() not in seen:
            dist.broadcast(parameter.data, 0)
        seen.add(parameter.untyped_storage().data_ptr())


@program()
def wrapper_that_is_gone_before_backward(rank, world_size):
    DistributedDataParallel(mlp())(batch(rank)).sum().backward()


@program()
def static_graph_around_checkpoint(rank, world_size):
    model = DistributedDataParallel(mlp(), static_graph=True)
    for _ in range(3):
        checkpoint(model, batch(rank).requires_grad_(), use_reentrant=False).sum().backward()


@program()
def gradients_of_samples(rank, world_size):
    model = mlp()

    def loss(parameters, x_D):
        return functional_call(model, parameters, x_D).sum()

    gradients = vmap(grad(loss), in_dims=(None, 0))(dict(model.named_parameters()), batch(rank))
    for gradient in gradients.values():
        dist.all_reduce(gradient)


@program(refused="sparse tensor")
def sparse_gradient(rank, world_size):
    table = nn.Embedding(8, 4, sparse=True)
    table(torch.tensor([1, 2])).sum().backward()
    dist.all_reduce(table.weight.grad)


@program(refused="the store")
def counted_in_the_store(rank, world_size):
    dist.distributed_c10d._get_default_store().add("here", 1)
    dist.barrier()


@program(refused="Write .item()")
def plain_numbers(rank, world_size):
    print(float(torch.randn(3).mean()))
    dist.barrier()


# ── what came of it ──


def calls_of(run) -> list[list[tuple]]:
    """What each rank asked the network for, in order."""
    return [[(c.op, tuple(c.members), c.bytes, c.dtype, c.peer, c.root, c.reduce_op) for c in run.trace.of(rank)]
            for rank in range(run.world_size)]


def main(names: list[str]) -> None:
    for name in names or PROGRAMS:
        wanted = PROGRAMS[name]
        try:
            real = calls_of(run_ranks(wanted.fn, wanted.world_size))
        except Exception as error:
            real = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        try:
            simulated = calls_of(simulate_ranks(wanted.fn, wanted.world_size))
        except Exception as error:
            simulated = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        if isinstance(real, str):
            print(f"{name:36} runs not: {real}")
        elif isinstance(simulated, str):
            print(f"{name:36} {[len(calls) for calls in real]} calls; refused: {simulated}")
        elif real == simulated:
            print(f"{name:36} {[len(calls) for calls in real]} calls, the same")
        else:
            print(f"{name:36} {[len(calls) for calls in real]} calls, DIFFERENT: {[len(calls) for calls in simulated]}")
            for rank, (ours, theirs) in enumerate(zip(real, simulated, strict=True)):
                same = [a == b for a, b in zip(ours, theirs, strict=False)]
                at = same.index(False) if False in same else len(same)
                print(f"    rank {rank}, call {at}: {ours[at:at + 1]} / {theirs[at:at + 1]}")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(sys.argv[1:])
