"""Jobs on two machines, by torchrun: network namespaces with a link between them (tests/two_machines.sh)."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from grader.exercises.references import functions_of
from tests.course import ROOT
from tests.test_cluster import _namespaces
from utils import Deadlock, Mismatch, RankFailed, run_ranks, simulate_ranks
from utils.ranks.run import Run
from utils.ranks.torchrun import read_results, write_job
from utils.simulation.cluster import Cluster, Device, Link

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("two machines"), pytest.mark.timeout(300),
              pytest.mark.skipif(not _namespaces(), reason="needs network namespaces and Debian's iproute2")]
RATE, RATE_BYTES_PER_S = "100mbit", 100e6 / 8
MIB = 2**20
FACTOR = 2.0


def on_two_machines(fn: Callable, folder: Path, each: int = 1, rate: str = "") -> Run:
    """The Run of `fn` on each · 2 ranks.  Raises: as read_results."""
    write_job(fn, folder / "job.pkl")
    subprocess.run([ROOT / "tests" / "two_machines.sh", sys.executable, ROOT, folder, str(each), *([rate] if rate else [])],
                   capture_output=True, timeout=200)
    return read_results(folder / "results")


def test_ring_data_parallel_and_pipeline_are_what_they_are_on_one_machine(tmp_path):
    ring = functions_of("solutions", "01_collectives")["ring_all_reduce"]

    def steps(rank: int, world_size: int) -> dict:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
        replica = nn.parallel.DistributedDataParallel(model)
        replica(torch.arange(8.0) + rank).sum().backward()
        x = torch.ones(4) if rank == 0 else torch.empty(4)
        if rank > 0:
            dist.recv(x, rank - 1)
        y = x * 2 + rank
        if rank < world_size - 1:
            dist.send(y, rank + 1)
        return {"hello": (rank, world_size), "ring": ring(torch.arange(10.0) * rank, dist.group.WORLD),
                "data parallel": [p.grad for p in model.parameters()], "pipeline": y}

    apart, together = on_two_machines(steps, tmp_path, each=2), run_ranks(steps, 4)
    torch.testing.assert_close(apart.results, together.results)
    ops = [[call.op for call in run.trace.of(3)] for run in (apart, together)]
    assert ops[0] == ops[1] and apart.trace.bytes_sent(2) == together.trace.bytes_sent(2)


def test_a_slow_link_costs_what_the_simulator_says(tmp_path):
    def all_reduce() -> None:
        dist.all_reduce(torch.ones(MIB))

    def timed() -> float:
        times = []
        for _ in range(3):
            dist.barrier()
            began = time.perf_counter()
            all_reduce()
            times.append(time.perf_counter() - began)
        return min(times)

    measured_s = max(on_two_machines(timed, tmp_path, rate=RATE).results)
    device, link = Device("CPU", {"float32": 1e11}, 1e12, 1e10), Link("slow", 1e-4, RATE_BYTES_PER_S)
    machines = Cluster("two machines", device, 2, 1, link, link)
    assert 1 / FACTOR < measured_s / simulate_ranks(all_reduce, 2, machines).elapsed_s < FACTOR


def both_receive(rank: int) -> None:
    dist.recv(torch.ones(3), 1 - rank)


def sizes_differ(rank: int) -> None:
    dist.all_reduce(torch.ones(3 + rank))


def one_raises(rank: int) -> None:
    if rank == 1:
        raise ValueError("no such luck")
    dist.all_reduce(torch.ones(3))


def one_is_killed(rank: int) -> None:
    if rank == 1:
        os.kill(os.getpid(), 9)
    dist.all_reduce(torch.ones(3))


@pytest.mark.parametrize("fn, error, words", [
    (both_receive, Deadlock, "every rank receives first"),
    (sizes_differ, Mismatch, r"rank 1 called all_reduce of float32\[4\]"),
    (one_raises, RankFailed, r"rank 1: ValueError: no such luck"),
    (one_is_killed, RankFailed, "rank 1: died: its process or its machine ended, or the network to it")])
def test_what_goes_wrong_is_said_as_on_one_machine(tmp_path, fn, error, words):
    with pytest.raises(error, match=words) as caught:
        on_two_machines(fn, tmp_path)
    assert caught.value.run.verdict_s < 2 or error is RankFailed  # where the others may go on for a while


def test_a_network_that_breaks_is_said(tmp_path):
    cut = tmp_path / "cut"

    def steps(rank: int) -> None:
        for step in range(1000):
            dist.all_reduce(torch.ones(3))
            if rank == 0 and step == 10:
                cut.touch()
            time.sleep(0.05)

    with pytest.raises(RankFailed, match="or the network to it"):
        on_two_machines(steps, tmp_path, rate="cut")
