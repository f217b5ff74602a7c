"""`make bench`: ratios, each of two things measured in one run; medians. Numbers of seconds are of this machine only.

Usage: python -m tests.bench [report] [NAME ...]     report: keep the ratios in docs/bench.csv, and write docs/bench.md
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist

from grader.exercises.references import functions_of
from tests.bench_gpu import bench_gpu
from tests.bench_load import bench_load
from tests.bench_marking import bench_bombs, bench_marking
from tests.bench_peers import bench_peers
from tests.bench_pipeline import bench_micro_batches, bench_one_f_one_b
from tests.bench_profile import bench_profile
from tests.bench_reality import bench_reality
from tests.bench_report import keep
from tests.bench_search import bench_search
from tests.bench_sequence_parallel import bench_sequence_parallel
from tests.bench_simulator import bench_simulator
from tests.bench_tensor_parallel import bench_tensor_parallel
from tests.bench_training import bench_data_parallel, bench_fully_shard, bench_overlap
from utils import run_ranks

MIB = 1 << 20
WORLD_SIZE = 4
REPORTED = 3  # times that a report measures each ratio


def nothing(rank: int = 0) -> None:
    """A function for ranks that only come and go."""
    dist.all_reduce(torch.ones(1))


MEASURED: list[dict[str, str]] = []


def line(name: str, ratio: float, wanted: str, met: bool, detail: str = "") -> None:
    MEASURED.append({"name": name, "ratio": f"{ratio:.2f}", "wanted": wanted, "met": "yes" if met else "no",
                     "detail": detail})
    print(f"{'ok ' if met else 'NOT'}  {name:<62} {ratio:7.2f}   wanted {wanted:<8} {detail}", flush=True)


# ── starting ranks ──


def bench_start() -> None:
    """Cell to result, against torch.multiprocessing.spawn and accelerate's notebook_launcher."""
    run_ranks(nothing, WORLD_SIZE)  # the first call starts the server that ranks are forked from
    ours = [seconds(lambda: run_ranks(nothing, WORLD_SIZE)) for _ in range(7)]
    launched, spawned = _started_by("notebook_launcher"), _started_by("mp.spawn")
    ours += [seconds(lambda: run_ranks(nothing, WORLD_SIZE)) for _ in range(7)]
    a, b, c = median(ours), median(spawned), median(launched)
    line("mp.spawn / run_ranks, 4 ranks", b / a, ">= 25", b / a >= 25, f"{b:.2f} s against {a:.3f} s")
    line("notebook_launcher / run_ranks, 4 ranks", c / a, ">= 1", c >= a, f"{c:.3f} s against {a:.3f} s")


def bench_world_sizes() -> None:
    """Cost of 1 to 64 ranks; from 4 up it should grow no faster than the number of ranks."""
    cost = {n: median(run_ranks(nothing, n).elapsed_s for _ in range(7)) for n in (1, 2, 4, 8, 16, 32, 64)}
    print("     seconds by number of ranks: " + ", ".join(f"{n}: {s:.3f}" for n, s in cost.items()))
    growth = cost[64] / cost[4]
    line("64 ranks / 4 ranks", growth, "<= 16", growth <= 16)


def _started_by(kind: str) -> list[float]:
    """Seconds, in a program of its own."""
    program = [sys.executable, "-m", "tests.bench_starts", kind]
    return json.loads(subprocess.run(program, capture_output=True, check=True, timeout=180).stdout.splitlines()[-1])


# ── tracing ──


def bench_tracing() -> None:
    """An all-reduce of 4 MiB with the trace and without."""
    ratios = []
    for _ in range(61):  # one after the other, so that both meet the same noise
        plain = run_ranks(_timed_all_reduces, WORLD_SIZE, trace=False, memory=False).results[0]
        ratios.append(run_ranks(_timed_all_reduces, WORLD_SIZE, memory=False).results[0] / plain)
    ratio = median(ratios)
    line("all-reduce of 4 MiB, traced / untraced", ratio, "< 1.10", ratio < 1.10)


def _timed_all_reduces() -> float:
    return in_rank(dist.all_reduce, torch.ones(4 * MIB // 4), repeats=25)


# ── rings against the library ──


def bench_rings() -> None:
    """The reference rings against gloo's own collectives, and what they put on the wire."""
    rings = functions_of("solutions", "01_collectives")
    own_scatter, own_all = rings["ring_reduce_scatter"], rings["ring_all_reduce"]
    for size in (1, 16):
        elements = size * MIB // 4

        def race(own_scatter=own_scatter, own_all=own_all, elements=elements):
            x, group = torch.ones(elements), dist.group.WORLD
            rows, row = x.view(WORLD_SIZE, -1), torch.empty(elements // WORLD_SIZE)
            return in_turn(lambda: dist.reduce_scatter_single(row, x), lambda: own_scatter(rows, group),
                           lambda: dist.all_reduce(x), lambda: own_all(x, group))

        library_rs, own_rs, library_ar, own_ar = run_ranks(race, WORLD_SIZE, trace=False, memory=False).results[0]
        if size == 16:
            line(f"reduce-scatter of {size} MiB, own ring's speed / library's", library_rs / own_rs, ">= 1.3",
                 library_rs / own_rs >= 1.3)
            line(f"all-reduce of {size} MiB, own ring's speed / library's", library_ar / own_ar, ">= 0.85",
                 library_ar / own_ar >= 0.85)
        else:
            print(f"     at {size} MiB: reduce-scatter {library_rs / own_rs:.2f}, all-reduce {library_ar / own_ar:.2f}")
    bench_wire(own_scatter)


def bench_wire(own_scatter: Callable) -> None:
    """Bytes on the wire against the ring formula, 16 MiB, 4 ranks."""
    x = torch.ones(WORLD_SIZE, 16 * MIB // 4 // WORLD_SIZE)
    formula = 16 * MIB * (WORLD_SIZE - 1)

    def own(x=x):
        own_scatter(x, dist.group.WORLD)

    def library(x=x):
        dist.reduce_scatter_single(torch.empty(x.shape[1]), x.view(-1))

    for name, fn, wanted in (("own ring's", own, 1.02), ("library's", library, None)):
        wire = run_ranks(fn, WORLD_SIZE).trace.wire_bytes
        if wire is None:
            print("     this system does not count bytes on the wire")
            return
        ratio = sum(map(sum, wire)) / formula
        line(f"reduce-scatter of 16 MiB, {name} bytes on the wire / formula", ratio,
             f"<= {wanted}" if wanted else "(about 2)", wanted is None or ratio <= wanted)


# ── timing ──


def seconds(fn: Callable[[], object]) -> float:
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def in_rank(fn: Callable, *arguments, repeats: int) -> float:
    """Inside a rank: median seconds of a call, all ranks starting together."""
    times = []
    for _ in range(repeats + 1):
        dist.barrier()
        times.append(seconds(lambda: fn(*arguments)))
    return median(times[1:])


def in_turn(*functions: Callable[[], object], rounds: int = 11) -> list[float]:
    """Inside a rank: median seconds of each function, the rounds interleaved, so that noise meets all alike."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds + 1):
        for fn, own in zip(functions, times, strict=True):
            dist.barrier()
            own.append(seconds(fn))
    return [median(own[1:]) for own in times]


BENCHES = {"start": bench_start, "sizes": bench_world_sizes, "tracing": bench_tracing, "rings": bench_rings,
           "bombs": partial(bench_bombs, line), "marking": partial(bench_marking, line), "profile": bench_profile,
           "load": partial(bench_load, line),
           "data_parallel": partial(bench_data_parallel, line, in_turn), "overlap": partial(bench_overlap, line, in_turn),
           "fully_shard": partial(bench_fully_shard, line, in_turn),
           "tensor_parallel": partial(bench_tensor_parallel, line, in_turn),
           "one_f_one_b": partial(bench_one_f_one_b, line, in_turn),
           "micro_batches": partial(bench_micro_batches, line, in_turn),
           "sequence_parallel": partial(bench_sequence_parallel, line, in_turn),
           "simulator": partial(bench_simulator, line), "reality": partial(bench_reality, line, in_rank),
           "gpu": partial(bench_gpu, line), "peers": partial(bench_peers, line), "search": partial(bench_search, line)}


def main() -> None:
    asked = sys.argv[1:]
    chosen = [name for name in asked if name != "report"] or list(BENCHES)
    if unknown := set(chosen) - set(BENCHES):
        sys.exit(f"no bench is called {', '.join(unknown)}; there are: {', '.join(BENCHES)}")
    for name in chosen:
        bench = BENCHES[name]
        print(f"── {name}: {getattr(bench, 'func', bench).__doc__.splitlines()[0]}", flush=True)
        for _ in range(REPORTED if "report" in asked else 1):
            bench()
    if "report" in asked:
        keep(MEASURED)


if __name__ == "__main__":
    main()
