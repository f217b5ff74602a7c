"""A rank begins as a fresh process does, has what its notebook has now, leaves nothing; interrupts cut nothing in half."""

import contextlib
import gc
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time

import cloudpickle
import numpy as np
import pytest
import torch
import torch.distributed as dist

from utils import run_ranks, simulate_ranks, span
from utils.models import DeepMLP, same_start
from utils.models.text import text, text_batch
from utils.ranks.apart import run_apart
from utils.ranks.job import Job
from utils.ranks.launcher import launch
from utils.ranks.server import start_methods
from utils.trace.memory import METER, MemoryMeter, held_bytes
from utils.trace.spans import RECORDER

N = 2
on_linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")


def draws():
    return [torch.rand(1).item(), torch.nn.Linear(2, 2).weight[0, 0].item(), random.random(), float(np.random.rand())]


# ── random numbers ──


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_numbers_that_nobody_seeds_differ_between_ranks_and_between_runs(start_method):
    runs = [run_ranks(draws, N, start_method=start_method).results for _ in range(2 if start_method == "forkserver" else 1)]
    drawn = [number for results in runs for of_rank in results for number in of_rank]
    assert len({*drawn}) == len(drawn)


def test_numbers_that_are_seeded_are_equal_on_all_ranks():
    def seeded():
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        return draws()

    assert run_ranks(seeded, N).results == [seeded()] * N


def test_where_marks_depend_on_them_unseeded_numbers_differ_between_ranks_only():
    def task(blob, done, ask):
        return repr([torch.rand(1).item(), random.random(), float(np.random.rand())]).encode()

    first, second = (launch(Job(cloudpickle.dumps(task), [b""] * N, seed=0)).blobs for _ in range(2))
    assert first == second and first[0] != first[1]


def test_simulated_ranks_draw_unlike_each_other_and_alike_in_every_simulation():
    first, second = (simulate_ranks(lambda: (random.random(), float(np.random.rand())), 3).results for _ in range(2))
    assert first == second and len({*first}) == 3


# ── what the notebook has ──


@pytest.mark.parametrize("start", [run_ranks, simulate_ranks])
def test_a_rank_has_folder_variables_and_modules_as_they_are_now(start, tmp_path, monkeypatch):
    monkeypatch.setenv("IS_TAKEN_AWAY", "before")
    start(os.getcwd, 1)  # now there is a server, which knows of nothing that follows
    (tmp_path / "came_lately.py").write_text("def answer(): return 42")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAME_LATELY", "now")
    monkeypatch.delenv("IS_TAKEN_AWAY")
    monkeypatch.setattr(sys, "argv", ["lesson", "--fast"])
    import came_lately

    def looks():
        return os.getcwd(), os.environ["CAME_LATELY"], os.environ.get("IS_TAKEN_AWAY"), sys.argv, came_lately.answer()

    assert start(looks, N).results == [(str(tmp_path), "now", None, ["lesson", "--fast"], 42)] * N


def test_a_folder_that_is_gone_is_no_reason_to_fail(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run_ranks(lambda: 1, 1).results == [1]


@pytest.mark.parametrize("start", [run_ranks, simulate_ranks])
def test_a_rank_finds_the_variables_that_torchrun_sets(start):
    def reads():
        return [int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")]

    assert start(reads, N).results == [[rank, rank, N, N] for rank in range(N)]
    assert "RANK" not in os.environ


# ── what it leaves, and may open ──


@on_linux
@pytest.mark.parametrize("ends", [lambda: None, lambda: os._exit(3)])
def test_what_a_rank_started_ends_with_it(ends, tmp_path):
    def leaves(rank):
        others = [subprocess.Popen(["sleep", "600"], process_group=group) for group in (None, 0)]
        (tmp_path / str(rank)).write_text(" ".join(str(other.pid) for other in others))
        dist.barrier()
        ends()

    with contextlib.suppress(RuntimeError):
        run_ranks(leaves, N)
    left, patience = [pid for rank in range(N) for pid in (tmp_path / str(rank)).read_text().split()], time.monotonic() + 5
    while left and time.monotonic() < patience:  # who is killed takes a moment to die
        left = [pid for pid in left if _is_running(pid)]
    assert not left


def _is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"  # nobody may be here to bury it
    except OSError:
        return False


FEW_FILES = """
import resource, sys
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from utils import run_ranks
try:
    print(run_ranks(lambda rank: rank, 12).results)
except ValueError as error:
    print(error)
"""


def test_a_soft_limit_of_open_files_is_raised_and_a_hard_one_told():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = 4096 if hard == resource.RLIM_INFINITY else hard
    soft, hard = (subprocess.run([sys.executable, "-c", FEW_FILES, "40", str(limit)], capture_output=True, text=True)
                  for limit in (most, 40))
    assert soft.stdout == f"{[*range(12)]}\n", soft.stderr
    assert "12 ranks need" in hard.stdout and "40 at most" in hard.stdout, hard.stderr


@pytest.mark.parametrize("platform, usual", [("linux", "forkserver"), ("darwin", "spawn")])
def test_ranks_fork_where_that_was_tried(platform, usual):
    assert start_methods(platform)[0] == usual


# ── interrupts ──


class Hit(BaseException):
    """What a signal's handler raises."""


@contextlib.contextmanager
def interrupted_after(seconds, raised=KeyboardInterrupt):
    def hit(*_):
        raise raised

    before = signal.signal(signal.SIGALRM, hit)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@on_linux
@pytest.mark.parametrize("start", [run_ranks, simulate_ranks])
def test_interrupts_at_any_moment_leave_nothing_open_and_the_next_run_well(start):
    start(lambda: 1, 3)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(25):
        with pytest.raises(KeyboardInterrupt), interrupted_after(0.002 + 0.004 * number):
            start(lambda: time.sleep(5), 3)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    assert start(lambda rank: rank, 3).results == [0, 1, 2]


def test_work_apart_returns_raises_and_ends_in_order_when_interrupted():
    assert run_apart(lambda interrupts: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(LookupError, match="why"):
        run_apart(lambda interrupts: _raises(LookupError("why")))
    done = []

    def works(interrupts):
        interrupts.recv(1)  # until somebody interrupts
        time.sleep(0.1)
        done.append("in order")

    with pytest.raises(Hit), interrupted_after(0.05, Hit):
        run_apart(works)
    assert done == ["in order"]


def _raises(error):
    raise error


# ── in every thread of a rank ──


def test_spans_and_held_bytes_are_there_in_the_threads_of_a_program():
    def works():
        found = []

        def body():
            with span("in a thread"):
                found.append(held_bytes())

        kept = torch.ones(1000)
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        return found[0] >= kept.nbytes

    for run in (run_ranks(works, N), simulate_ranks(works, N)):
        assert run.results == [True] * N and [each.name for each in run.trace.spans] == ["in a thread"] * N


def test_outside_of_ranks_and_after_a_meter_there_is_none():
    with MemoryMeter() as outer:
        assert METER.get() is outer
    assert METER.get() is None and RECORDER.get() is None


# ── models and text ──


def test_models_and_text_are_drawn_on_the_cpu_and_go_to_the_default_device():
    with torch.device("meta"):  # which has no generator of its own
        assert text_batch(0, 2, 8).shape == (2, 9) and text_batch(0, 2, 8).device.type == "meta"
        assert {p.device.type for p in same_start(DeepMLP).parameters()} == {"meta"}
    assert {p.device.type for p in same_start(DeepMLP).parameters()} == {"cpu"}


def test_the_text_is_the_same_for_every_reader():
    """Losses that somebody has noted depend on each byte."""
    assert (len(text()), text().long().sum().item()) == (287_380, 25_716_053)
