"""Simulated against real steps on this machine: a device and a link are fitted, then times predicted and measured."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist

from grader.exercises.references import functions_of
from tests.bench_simulator import programs
from utils import run_ranks, simulate_ranks
from utils.simulation.cluster import Cluster, Device, Link

FACTOR = 3.0  # more ranks than cores take turns as the system likes, and no rate tells when
SIZE, LONG, MIB = 384, 1 << 22, 1 << 20
RUNS = 5


def bench_reality(line: Callable, in_rank: Callable) -> None:
    """Predicted / measured seconds of steps on 2 to 8 ranks, with α, β, FLOP/s and memory speed fitted on as many."""
    steps = programs()
    ring = functions_of("solutions", "01_collectives")["ring_all_reduce"]
    cases = {"ring all-reduce of 4 MiB": (lambda: ring(torch.ones(MIB), dist.group.WORLD), (2, 4))}
    cases |= {name: (steps[name], (2, 4)) for name in ("data parallel", "FullyShard")}
    cases |= {name: (steps[name], (8,)) for name in ("tensor parallel in nodes of 8", "pipelines of 8 stages")}
    machines = {n: fitted(n, in_rank) for n in (2, 4, 8)}
    for name, (program, sizes) in cases.items():
        for n in sizes:
            predicted, measured = simulate_ranks(program, n, machines[n]).elapsed_s, measured_s(program, n)
            ratio = predicted / measured
            met = 1 / FACTOR <= ratio <= FACTOR
            line(f"{name}, {n} ranks: predicted / measured", ratio, f"1/{FACTOR:g} to {FACTOR:g}", met,
                 f"{1e3 * predicted:.1f} ms, {1e3 * measured:.1f} ms")


def fitted(n: int, in_rank: Callable) -> Cluster:
    """This machine as n devices, fitted while n ranks work at the same time: so they share its cores in the rates too."""
    rates = run_ranks(lambda: _rates(in_rank), n, trace=False, memory=False).results
    product_s, copy_s, little_s, small_s, large_s = (median(column) for column in zip(*rates, strict=True))
    device = Device("a share of this machine", {"float32": 2 * SIZE**3 / product_s}, 1e12, 2 * 4 * LONG / copy_s,
                    overhead_s=little_s)
    return Cluster("this machine", device, n, n, Link("loopback", small_s, 4 * MIB / max(large_s - small_s, 1e-9)))


def _rates(in_rank: Callable) -> tuple[float, ...]:
    """Seconds of a product, a copy, an operation on next to nothing, and of a small and a large hop around the ring."""
    square, row, little = torch.ones(SIZE, SIZE), torch.ones(LONG), torch.ones(4)
    timed = partial(in_rank, repeats=15)
    return (timed(torch.mm, square, square), timed(row.clone), timed(torch.add, little, 1),
            timed(_hop, torch.ones(1)), timed(_hop, torch.ones(MIB)))


def _hop(x: torch.Tensor) -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(torch.empty_like(x), (rank - 1) % n)
    sending.wait()


def measured_s(program: Callable, n: int) -> float:
    """From the moment when all ranks begin until the last one ends; the median of some runs after a first one."""

    def timed() -> list[float]:
        times = []
        for _ in range(RUNS + 1):
            dist.barrier()
            began = time.perf_counter()
            program()
            dist.barrier()
            times.append(time.perf_counter() - began)
        return times[1:]

    return median(run_ranks(timed, n, trace=False, memory=False).results[0])
