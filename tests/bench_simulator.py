"""Simulated ranks: seconds of a training step of the course's own engines, 64 ranks and 1,024, and the growth per call."""

import resource
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from grader.exercises.references import functions_of
from utils import simulate_ranks
from utils.models.mesh_stage import MeshStage, tied_gpt
from utils.models.tiny import TinyGPT, next_byte_loss
from utils.schedules.schedule import Shape

FEW, MANY = 64, 1024
FEW_WANTED_S, MANY_WANTED_S = 5.0, 60.0
NODE, STAGES, MICRO = 8, 8, 8
MEMORY_WANTED_BYTES = 4 << 30
GROWTH_WANTED = 1.1


def _own_group(size: int):
    """The group of `size` neighbours that this rank belongs to."""
    n = dist.get_world_size()
    groups = [dist.new_group(list(range(first, first + size))) for first in range(0, n, size)]
    return groups[dist.get_rank() // size]


def _batch(rows: int = 2, length: int = 16) -> torch.Tensor:
    return torch.zeros(rows, length, dtype=torch.int64)


def _step_of(model: nn.Module, tokens: torch.Tensor) -> None:
    next_byte_loss(model(tokens), tokens).mean().backward()
    if hasattr(model, "finish_gradient_synchronization"):
        model.finish_gradient_synchronization()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def programs() -> dict[str, Callable]:
    """Rank functions by name. They hold what they use of a unit, not all of it: not everything there can travel."""
    wrap = functions_of("solutions", "02_data_parallel")["DataParallel"]
    shard = functions_of("solutions", "05_zero3")["FullyShard"]
    make_tensor_parallel = functions_of("solutions", "06_tensor_parallel")["make_tensor_parallel"]
    unit_07, unit_09 = (functions_of("solutions", unit) for unit in ("07_pipeline_parallel", "09_putting_together"))
    pipeline_of, one_f_one_b = unit_07["Pipeline"], unit_07["one_f_one_b_schedule"]
    make_mesh, trainer_of = unit_09["make_mesh"], unit_09["MeshTrainer"]

    def data_parallel():
        _step_of(wrap(TinyGPT()), _batch())

    def fully_shard():
        _step_of(shard(TinyGPT()), _batch())

    def tensor_parallel():
        _step_of(make_tensor_parallel(TinyGPT(n_heads=NODE), _own_group(NODE)), _batch())

    def pipeline():
        group, width = _own_group(STAGES), 64
        rank = dist.get_rank(group)
        xs = [torch.empty(4, width) for _ in range(MICRO)]
        pipeline_of({rank: nn.Linear(width, width)}, one_f_one_b(STAGES, MICRO),
                    Shape(STAGES, STAGES, MICRO), nn.functional.mse_loss, xs[0], group).step(xs, xs)

    def on_mesh():
        n = dist.get_world_size()
        mesh = make_mesh({"dp": n // 32, "pp": 4, "tp": NODE})
        stage = MeshStage(tied_gpt(length=32, dim=64, n_layers=4, n_heads=NODE), mesh["pp"], mesh["tp"])
        optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
        tokens = _batch(n // 8, 32)  # a replica's are four micro-batches of one
        trainer_of(stage, optimizer, 4, mesh, max_norm=1.0).step(tokens, tokens)

    return {"DP × PP 4 × TP 8": on_mesh, "data parallel": data_parallel, "FullyShard": fully_shard,
            "tensor parallel in nodes of 8": tensor_parallel, "pipelines of 8 stages": pipeline}


def bench_simulator(line: Callable) -> None:
    """A step of each engine on 64 and on 1,024 H100s that are not there."""
    recorders = 0
    simulate_ranks(lambda: None, NODE)  # the first one starts the server that recorders are forked from
    for name, program in programs().items():
        seconds, calls = {}, {}
        for n in (FEW, MANY):
            began = time.perf_counter()
            run = simulate_ranks(program, n)
            seconds[n] = time.perf_counter() - began
            recorders = max(recorders, sum(recorded.process_bytes for recorded in run.programs))
            calls[n] = sum(kind != 0 for recorded in run.programs for kind in recorded.kinds)
        line(f"{name}: seconds at {FEW} ranks", seconds[FEW], f"<= {FEW_WANTED_S:g}", seconds[FEW] <= FEW_WANTED_S)
        line(f"{name}: seconds at {MANY:,} ranks", seconds[MANY], f"<= {MANY_WANTED_S:g}", seconds[MANY] <= MANY_WANTED_S)
        growth = seconds[MANY] / calls[MANY] / (seconds[FEW] / calls[FEW])
        line(f"{name}: seconds per call, {MANY:,} / {FEW} ranks", growth, f"<= {GROWTH_WANTED}", growth <= GROWTH_WANTED,
             f"{calls[MANY]:,} calls and waits")
    peak = recorders + (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
    line("this process and its recorders, GiB", peak / (1 << 30), f"<= {MEMORY_WANTED_BYTES >> 30}",
         peak <= MEMORY_WANTED_BYTES)
