"""`make gpu`: all that a machine with GPUs should show, in one run; each part is run or says that it wasn't.

The tests that need a GPU, losses of the course's own trainers over NCCL against gloo, collectives of unit 01 by CUDA events
beside the simulator, and `make bench ARGS=gpu`.  Usage: python -m tests.gpu
"""

import subprocess
import sys
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist

from grader.exercises.references import functions_of
from tests.bench import line
from tests.bench_gpu import bench_gpu
from tests.course import ROOT
from utils import run_ranks, simulate_ranks
from utils.models.text import text_batch
from utils.models.tiny import TinyGPT, next_byte_loss, same_start
from utils.simulation.clusters import cluster_named

STEPS, CLOSE = 20, 1e-3
WRAPPERS = {"DataParallel": "02_data_parallel", "FullyShard": "05_zero3"}
LARGE, ROUNDS, FACTOR = 1 << 26, 11, 1.5  # elements of float32: 256 MiB


def main() -> int:
    n = torch.cuda.device_count()
    if n == 0:
        print("not run: this machine has no GPU")
        return 0
    print(f"{n} × {torch.cuda.get_device_name()}, torch {torch.__version__}")
    failed = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n0", "tests/test_ranks.py", "-k", "gpu or nccl"],
                            cwd=ROOT).returncode
    for name in WRAPPERS:
        worst = furthest(losses(name, n, "cuda"), losses(name, n, "cpu"))
        line(f"{name}: losses of {STEPS} steps, NCCL from gloo", worst, f"<= {CLOSE}", worst <= CLOSE)
        failed |= worst > CLOSE
    if n < 2:
        print("     collectives: not run, because they need two GPUs")
    else:
        compare_collectives(n)
    bench_gpu(line)
    return int(failed != 0)


def losses(name: str, n: int, device: str) -> list[float]:
    """Of the tiny GPT on n ranks, the mean over the ranks, step by step; by the solutions' own wrapper."""
    wrap = functions_of("solutions", WRAPPERS[name])[name]

    def train() -> list[float]:
        model, found = wrap(same_start(TinyGPT)), []
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for step in range(STEPS):
            tokens_BT = text_batch(step * n + dist.get_rank(), 4, 64)
            optimizer.zero_grad()
            loss = next_byte_loss(model(tokens_BT[:, :-1]), tokens_BT[:, 1:]).mean()
            loss.backward()
            model.finish_gradient_synchronization()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            found.append(mean.item() / n)
        return found

    return run_ranks(train, n, device=device).results[0]


def furthest(some: list[float], others: list[float]) -> float:
    """The largest difference of two curves."""
    return max(abs(one - other) for one, other in zip(some, others, strict=True))


def compare_collectives(n: int) -> None:
    """torch's all-reduce and the ring of unit 01, by CUDA events, beside the simulator's H100s."""
    ring = functions_of("solutions", "01_collectives")["ring_all_reduce"]

    def calls() -> dict[str, Callable]:
        x = torch.ones(LARGE)
        return {"all_reduce": lambda: dist.all_reduce(x), "ring_all_reduce": lambda: ring(x, dist.group.WORLD)}

    for name in ("all_reduce", "ring_all_reduce"):
        measured = max(run_ranks(lambda name=name: by_events(calls()[name]), n, device="cuda", trace=False).results)
        simulated = simulate_ranks(lambda name=name: calls()[name](), n, cluster_named("H100").slice(n)).elapsed_s
        ratio = simulated / measured
        line(f"{name}, {n} GPUs, 256 MiB: simulated on H100s", ratio, f"1/{FACTOR} to {FACTOR}",
             1 / FACTOR <= ratio <= FACTOR, f"{1e3 * simulated:.2f} ms, {1e3 * measured:.2f} ms")


def by_events(call: Callable) -> float:
    """Median seconds, inside a rank that has a GPU."""
    times = []
    for _ in range(ROUNDS):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        call()
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended) / 1e3)
    return median(times[1:])


if __name__ == "__main__":
    sys.exit(main())
