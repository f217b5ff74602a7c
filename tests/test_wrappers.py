"""The reference wrappers train as one plain process and as torch's engines do: 20 steps, three models, two optimizers."""

import functools
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor

from grader.calling.zoo import build, loss_rows
from grader.exercises.references import functions_of
from grader.exercises.shared.one_process import batch
from grader.judging.exercise import Draw
from utils import run_ranks

STEPS, ROWS = 20, 12  # 12 rows divide among 1, 2 and 3 ranks
MODELS = ("mlp", "tied", "gpt")
OPTIMIZERS = {"SGD": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}), "AdamW": (torch.optim.AdamW, {"lr": 0.01})}
# float64: 20 steps of sums in another order. AdamW divides by the root of the variance, so rounding of a gradient that is
# nearly zero counts in full.
TOLERANCE = {"SGD": 1e-12, "AdamW": 1e-8}
DataParallel = functions_of("solutions", "02_data_parallel")["DataParallel"]
ShardedOptimizer = functions_of("solutions", "03_zero1")["ShardedOptimizer"]
GradientBuckets, Zero2 = map(functions_of("solutions", "04_zero2").get, ("GradientBuckets", "Zero2"))
FullyShard = functions_of("solutions", "05_zero3")["FullyShard"]
Make = Callable[[nn.Module, type[torch.optim.Optimizer], dict], tuple[nn.Module, torch.optim.Optimizer]]


def plain(model, optimizer, options):
    return model, optimizer(model.parameters(), **options)


def data_parallel(model, optimizer, options):
    return DataParallel(model), optimizer(model.parameters(), **options)


def zero_1(model, optimizer, options):
    return model, ShardedOptimizer(model.parameters(), optimizer, **options)


def zero_2(model, optimizer, options):
    buckets = GradientBuckets(model, 200, 2, dist.group.WORLD)
    model.finish_gradient_synchronization = buckets.finish
    return model, Zero2(model, buckets, optimizer, **options)


def zero_3(model, optimizer, options):
    wrapped = FullyShard(model)
    return wrapped, optimizer(wrapped.parameters(), **options)


def torch_data_parallel(model, optimizer, options):
    wrapped = nn.parallel.DistributedDataParallel(model)
    return wrapped, optimizer(model.parameters(), **options)


def torch_zero_1(model, optimizer, options):
    return nn.parallel.DistributedDataParallel(model), ZeroRedundancyOptimizer(model.parameters(), optimizer, **options)


def torch_zero_2(model, optimizer, options):
    wrapped = fully_shard(model, reshard_after_forward=False)
    return wrapped, optimizer(wrapped.parameters(), **options)


def torch_zero_3(model, optimizer, options):
    wrapped = fully_shard(model, reshard_after_forward=True)
    return wrapped, optimizer(wrapped.parameters(), **options)


ENGINES = {data_parallel: torch_data_parallel, zero_1: torch_zero_1, zero_2: torch_zero_2, zero_3: torch_zero_3}


def trained(make: Make, name: str, kind: str, n: int = 1, rank: int = 0) -> dict[str, torch.Tensor]:
    """The whole parameters after 20 steps on this rank's rows."""
    model, draw = build(name, seed=3), Draw(7)
    wrapped, optimizer = make(model, *OPTIMIZERS[kind])
    for _ in range(STEPS):
        x, y = (part.tensor_split(n)[rank] for part in batch(draw, name, ROWS))
        optimizer.zero_grad()
        loss_rows(wrapped(x), y).mean().backward()
        if hasattr(wrapped, "finish_gradient_synchronization"):
            wrapped.finish_gradient_synchronization()
        optimizer.step()
    if hasattr(wrapped, "full_parameters"):
        return wrapped.full_parameters()
    return {name: (p.full_tensor() if isinstance(p, DTensor) else p).detach() for name, p in model.named_parameters()}


@functools.cache
def yardstick(name: str, kind: str) -> dict[str, torch.Tensor]:
    return trained(plain, name, kind)


def distance(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    assert found.keys() == expected.keys()
    return max((found[name] - expected[name]).abs().max().item() for name in expected)


@pytest.mark.parametrize("n", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 3))])
@pytest.mark.parametrize("make", ENGINES, ids=lambda make: make.__name__)
def test_the_wrapper_trains_as_one_process_and_as_torchs_engine(make, n):
    engine = ENGINES[make]

    def all_of_them(rank):
        return {(name, kind, one.__name__): trained(one, name, kind, dist.get_world_size(), rank)
                for name in MODELS for kind in OPTIMIZERS for one in (make, engine)}

    run = run_ranks(all_of_them, n, trace=False, memory=False)
    for rank in range(n):
        for name in MODELS:
            for kind in OPTIMIZERS:
                ours, torchs = (run.results[rank][name, kind, one.__name__] for one in (make, engine))
                assert distance(ours, yardstick(name, kind)) <= TOLERANCE[kind], (rank, name, kind)
                assert distance(ours, torchs) <= 2 * TOLERANCE[kind], (rank, name, kind)
