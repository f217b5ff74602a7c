"""run_ranks: results, arguments, errors, output, ways to start; and what is refused before anything starts."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from utils import DeadlineExceeded, RankFailed, run_ranks
from utils.ranks import oversight, torchrun
from utils.ranks.channel import Channel, Message, give_up_sending_after
from utils.ranks.job import Job
from utils.ranks.launcher import launch
from utils.ranks.output import MAX_LINES_SHOWN
from utils.ranks.payload import pack
from utils.ranks.place import Place
from utils.ranks.slow_link import slow_link
from utils.ranks.torchrun import read_results, write_job


def sum_of_ranks(rank):
    x = torch.tensor([float(rank)])
    dist.all_reduce(x)
    return x.item()


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 16])
def test_every_rank_returns(world_size):
    assert run_ranks(sum_of_ranks, world_size).results == [world_size * (world_size - 1) / 2] * world_size


@pytest.mark.long
def test_the_largest_world():
    assert run_ranks(sum_of_ranks, 64).results == [2016.0] * 64


def test_what_functions_may_take():
    assert run_ranks(lambda: dist.get_rank(), 2).results == [0, 1]
    assert run_ranks(lambda r: r, 2).results == [0, 1]
    assert run_ranks(lambda r, n: (r, n), 2).results == [(0, 2), (1, 2)]
    assert run_ranks(lambda world_size, rank: (rank, world_size), 2).results == [(0, 2), (1, 2)]
    assert run_ranks(lambda x: x * 2, inputs=[3, 4]).results == [6, 8]
    assert run_ranks(lambda x, rank: x + rank, 2, inputs=[3, 4]).results == [3, 5]
    assert run_ranks(lambda x=0: x, inputs=[torch.ones(2), None]).results[1] is None
    for inputs in (torch.tensor([1, 2]), np.array([1, 2])):
        assert run_ranks(float, inputs=inputs).results == [1.0, 2.0]


def test_closures_classes_and_helpers_travel():
    scale = torch.tensor(3.0)

    class Scaler:
        def __call__(self, x):
            return helper(x) * scale

    def helper(x):
        return x + 1

    assert run_ranks(lambda rank: Scaler()(rank).item(), 2).results == [3.0, 6.0]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        return 2 * dy


def test_once_differentiable_travels():
    """Its module's own globals hold one that nobody can import."""

    def back():
        x = torch.ones(2, requires_grad=True)
        Doubled.apply(x).sum().backward()
        return x.grad.tolist()

    assert run_ranks(back, 1).results == [[2.0, 2.0]]


def test_spawn_works_as_forkserver_does():
    assert run_ranks(sum_of_ranks, 2, start_method="spawn").results == [1.0, 1.0]


# ── errors ──


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux paces connections")
def test_a_slow_link_holds_bytes_back_and_nothing_else():
    def reduce_4_MiB():
        slowed, whole = slow_link(40), torch.ones(1 << 20)
        dist.barrier()
        start_s = time.perf_counter()
        dist.all_reduce(whole)
        return slowed, time.perf_counter() - start_s, whole[0].item()

    for slowed, seconds, total in run_ranks(reduce_4_MiB, 2).results:
        assert slowed and total == 2
        assert seconds > 0.8 * (4 << 20) / 40e6


def test_all_errors_are_collected_and_equal_ones_told_once():
    def fails(rank):
        raise ValueError("odd" if rank % 2 else "even")

    with pytest.raises(RankFailed) as caught:
        run_ranks(fails, 4)
    assert {(f.rank, f.message) for f in caught.value.failures} == {(0, "even"), (1, "odd"), (2, "even"), (3, "odd")}
    assert str(caught.value).count("even") == 1 + str(caught.value).count('"even"')
    assert "test_ranks.py, line" in str(caught.value)


def test_a_peer_that_cannot_be_is_named():
    with pytest.raises(RankFailed, match=r"there is no rank 2 in a group of 2 \(0 to 1\)"):
        run_ranks(lambda rank: dist.isend(torch.ones(1), group=dist.group.WORLD, group_dst=rank + 1).wait(), 2)
    with pytest.raises(RankFailed, match="would recv from itself"):
        run_ranks(lambda rank: dist.recv(torch.ones(1), src=rank), 2)


def test_a_root_that_cannot_be_is_named():
    with pytest.raises(RankFailed, match=r"there is no rank 2 in a group of 2 \(0 to 1\): the root must be one of them"):
        run_ranks(lambda: dist.broadcast(torch.zeros(1), group_src=2), 2)


def test_a_rank_that_dies_is_the_cause():
    def dies(rank):
        if rank == 1:
            os._exit(7)
        dist.barrier()

    with pytest.raises(RankFailed, match="exit code 7") as caught:
        run_ranks(dies, 3)
    assert caught.value.failures[0].rank == 1 and caught.value.failures[0].kind == "died"


def test_a_killed_rank_is_named():
    def killed(rank):
        if rank == 0:
            os.kill(os.getpid(), 9)

    with pytest.raises(RankFailed, match="SIGKILL"):
        run_ranks(killed, 2)


def test_sys_exit_is_an_error_not_an_end():
    with pytest.raises(RankFailed, match="SystemExit"):
        run_ranks(lambda: sys.exit(0), 2)


def test_an_endless_loop_meets_the_deadline_with_a_stack():
    def loops(rank):
        while rank == 1:
            pass

    start = time.monotonic()
    with pytest.raises(DeadlineExceeded) as caught:
        run_ranks(loops, 2, timeout_s=2)
    assert time.monotonic() - start < 20
    assert "while rank == 1" in str(caught.value) or "pass" in str(caught.value)
    assert list(caught.value.stacks) == [1]


def test_a_long_call_into_compiled_code_is_named_as_such():
    with pytest.raises(DeadlineExceeded, match="no answer"):
        run_ranks(lambda: sum(range(10**12)), 1, timeout_s=1)


@pytest.mark.parametrize("said, can_wait", [
    (["call", {"number": 0}], True), (["batch", {"items": [["woke", {}], ["call", {}]]}], True), (["returned", {}], False),
    (["batch", {"items": [["woke", {}], ["pause", {"name": "in the end"}]]}], False), (["call", {"x": "x" * 9000}], False)])
def test_what_only_tells_of_calls_can_wait_to_be_read(said, can_wait):
    message = Message(json.dumps(said).encode())
    assert message.can_wait is can_wait and message.read() == tuple(said)


def test_half_a_message_does_not_hold_the_launcher():
    def half():
        import gc
        channel = next(thing for thing in gc.get_objects() if type(thing).__name__ == "Channel")
        os.write(channel.connection.fileno(), b"\0" * 4 + b"\1" + b"\0" * 11)  # a header of 64 MiB follows, it says

    with pytest.raises(DeadlineExceeded):
        run_ranks(half, 1, timeout_s=1)


def test_what_is_known_of_a_failed_run_is_kept():
    def half(rank):
        dist.barrier()
        if rank == 1:
            raise KeyError("gone")
        return "done"

    with pytest.raises(RankFailed) as caught:
        run_ranks(half, 2)
    assert caught.value.run.results == ["done", None]
    assert len(caught.value.run.trace.of(op="barrier")) == 2


def test_an_error_is_told_with_what_it_came_from():
    def parses(rank):
        try:
            {}["size"]
        except KeyError as error:
            raise ValueError("no configuration") from error

    with pytest.raises(RankFailed) as caught:
        run_ranks(parses, 2)
    assert re.search(r"ranks 0 and 1: ValueError: no configuration\n.*raise ValueError.*\n +caused by: KeyError: 'size'\n"
                     r'.*\{\}\["size"\]', str(caught.value))


def test_all_parts_of_an_exception_group_are_told():
    def fails():
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError:
            raise ExceptionGroup("both", [OSError("the first"), ExceptionGroup("inner", [KeyError("last")])])  # noqa: B904

    with pytest.raises(RankFailed) as caught:
        run_ranks(fails, 1)
    for words in ("1 of 2: OSError: the first", "2 of 2: ExceptionGroup: inner", "1 of 1: KeyError: 'last'",
                  "raised while handling: ZeroDivisionError"):
        assert words in str(caught.value)


def test_an_exception_without_text_is_told_with_its_line():
    class Textless(Exception):
        def __str__(self):
            raise OSError

    def fails():
        raise Textless

    with pytest.raises(RankFailed, match=r"(?s)Textless: .*__str__ raised OSError.*raise Textless"):
        run_ranks(fails, 1)


@pytest.mark.parametrize("words", [
    "broken pipe", "Timed out waiting for a mate", "[a/gloo/transport/x.cc:1] Connection closed by peer"])
def test_an_own_error_is_told_whatever_its_words_are(words):
    def fails(rank):
        raise RuntimeError(words) if rank == 0 else ValueError("another")

    with pytest.raises(RankFailed) as caught:
        run_ranks(fails, 2)
    assert not any(failure.secondary for failure in caught.value.failures)
    assert f"RuntimeError: {words}" in str(caught.value) and "ValueError: another" in str(caught.value)


@pytest.mark.parametrize("trace", [True, False])
def test_who_lost_its_partner_only_waited_and_what_torch_said_is_shown(trace):
    def waits(rank):
        work = dist.irecv(torch.ones(1), 1) if rank == 0 else None
        dist.barrier()
        if rank == 1:
            os._exit(5)
        work.wait()

    with pytest.raises(RankFailed) as caught:
        run_ranks(waits, 2, trace=trace)
    assert [(failure.rank, failure.secondary) for failure in caught.value.failures] == [(1, False), (0, True)]
    told = r"rank 0 only waited for rank 1:(?s:.*)rank 0 got RuntimeError: (Connection|Read error)"
    assert re.search(told, str(caught.value))


# ── output ──


def test_output_comes_in_whole_marked_lines_from_both_descriptors(capsys):
    def prints(rank):
        print("python", rank, end="\n")
        os.write(1, b"raw ")
        os.write(1, b"bytes\n")
        sys.stderr.write("warning\n")
        subprocess.run(["echo", "child"], check=True)
        print("no newline at the end", end="")

    run = run_ranks(prints, 2)
    captured = capsys.readouterr()
    for rank in range(2):
        for text in (f"python {rank}", "raw bytes", "child", "no newline at the end"):
            assert f"[rank {rank}] {text}\n" in captured.out
        assert f"[rank {rank}] warning\n" in captured.err
        assert "raw bytes" in run.output[rank]


def test_a_flood_is_cut(capsys):
    def floods():
        for number in range(30_000):
            print("line", number, "x" * 100)
        print("y" * 3_000_000)

    run = run_ranks(floods, 2)
    captured = capsys.readouterr().out
    assert captured.count("[rank 0]") == MAX_LINES_SHOWN + 1 and "the rest is not shown" in captured
    assert run.output[1][-1].startswith("y") and len(captured) < 2_000_000


# ── what is refused ──


@pytest.mark.parametrize("world_size, words", [
    (0, "from 1 to 64; got 0"), (-3, "got -3"), (65, "got 65"), ("four", "whole number.*'four'"), (2.5, "got 2.5"),
    (None, "whole number"), (True, "whole number")])
def test_world_sizes_that_cannot_be(world_size, words):
    with pytest.raises((ValueError, TypeError), match=words):
        run_ranks(sum_of_ranks, world_size)


@pytest.mark.parametrize("arguments, error, words", [
    (dict(fn=3, world_size=2), TypeError, "needs a function.*got int"),
    (dict(fn=lambda a, b, c: 0, world_size=2), TypeError, r"without inputs.*\(a, b, c\)"),
    (dict(fn=lambda: 0, inputs=[1, 2]), TypeError, "with inputs"),
    (dict(fn=lambda a, b: 0, inputs=[1, 2]), TypeError, "with inputs"),
    (dict(fn=lambda x: 0, world_size=3, inputs=[1, 2]), ValueError, "3 ranks, but 2 inputs"),
    (dict(fn=lambda x: 0, inputs=5), TypeError, "list with one value a rank"),
    (dict(fn=lambda x: 0, inputs=[1, threading.Lock()]), TypeError, r"inputs\[1\].*lock"),
    (dict(fn=lambda: 0, world_size=2, backend="mpi"), ValueError, "'nccl'.*'gloo'"),
    (dict(fn=lambda: 0, world_size=2, device="tpu"), ValueError, "'cpu' or 'cuda'"),
    (dict(fn=lambda: 0, world_size=2, device="cpu", backend="nccl"), ValueError, "do not go together"),
    (dict(fn=lambda: 0, world_size=2, timeout_s=0), ValueError, "positive"),
    (dict(fn=lambda: 0, world_size=2, timeout_s=True), ValueError, "positive"),
    (dict(fn=lambda: 0, world_size=2, start_method="fork"), ValueError, "never"),
])
def test_arguments_that_cannot_work(arguments, error, words):
    with pytest.raises(error, match=words):
        run_ranks(**arguments)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.skipif(torch.cuda.device_count() >= 2, reason="there are GPUs")
@pytest.mark.parametrize("asked", [{"backend": "nccl"}, {"device": "cuda"}])
def test_gpus_that_are_not_there_are_refused(asked):
    with pytest.raises(ValueError, match="needs a GPU for each of the 2 ranks"):
        run_ranks(sum_of_ranks, 2, **asked)


def test_gpus_are_not_taken_but_told_of_once(monkeypatch, capsys):
    monkeypatch.setattr("utils.ranks.run._n_gpus", lambda: 1000)
    assert [run_ranks(lambda: dist.get_backend(), 3).results for _ in range(2)] == [["gloo"] * 3] * 2
    assert capsys.readouterr().out.count('device="cuda"') == 1


class OnAnotherDevice(torch.Tensor):
    """Says that it is on a GPU, which this machine need not have."""

    device = torch.device("cuda:0")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def test_tensors_on_a_gpu_travel_as_cpu_tensors_wherever_they_are():
    x = torch.arange(3.0).as_subclass(OnAnotherDevice)
    of_closure, (first, second) = cloudpickle.loads(pack((lambda: x, [x, x]), "both"))
    assert first is second is of_closure() and type(first) is torch.Tensor and first.tolist() == [0, 1, 2]


@needs_gpu
def test_a_rank_over_nccl_is_recorded():
    def calls_of_all_kinds():
        x = torch.ones(4)
        rows = [x.clone()]
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        dist.all_gather([torch.empty(4)], x)
        dist.reduce_scatter(torch.empty(4), rows)
        dist.all_to_all_single(torch.empty(4), x)
        dist.all_reduce(x, group=dist.new_group([0]))
        dist.barrier()
        dist.all_reduce(x, async_op=True).wait()
        dist.all_reduce(torch.ones(4, device="cpu"))
        return x.device.type

    run = run_ranks(calls_of_all_kinds, 1, backend="nccl")
    assert run.results == ["cuda"]
    assert [call.op for call in run.trace.calls] == [
        "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "new_group", "all_reduce", "barrier",
        "all_reduce", "all_reduce"]
    assert all(call.end_s is not None for call in run.trace.calls)


@needs_gpu
def test_a_rank_over_gloo_sees_no_gpu():
    assert run_ranks(torch.cuda.is_available, 1).results == [False]


def test_the_variable_that_cannot_travel_is_named(tmp_path):
    log = open(tmp_path / "log", "w")  # noqa: SIM115

    def writes():
        log.write("x")

    with pytest.raises(TypeError, match="variable 'log', a TextIOWrapper"):
        run_ranks(writes, 2)
    log.close()


def test_the_result_that_cannot_travel_is_named():
    with pytest.raises(RankFailed, match=r"what rank 0 returned.*\['model'\]\[1\] is a lock"):
        run_ranks(lambda: {"loss": 1.0, "model": [2, threading.Lock()]}, 1)


# ── elsewhere ──


def under_torchrun(job: Path, folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
               "--nproc-per-node", "2", "-m", "utils.ranks.torchrun", str(job), str(folder)]
    loopback = "lo0" if sys.platform == "darwin" else "lo"  # a test machine may not know its own name
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GLOO_SOCKET_IFNAME": loopback}
    return subprocess.run(command, env=env, timeout=120, stderr=subprocess.PIPE, text=True)


def test_the_same_function_under_torchrun(tmp_path):
    job = write_job(lambda x, rank: sum_of_ranks(rank) + x, tmp_path / "job.pkl", inputs=[10, 20])
    done = under_torchrun(job, tmp_path / "results")
    assert done.returncode == 0, done.stderr[-3000:]
    run = read_results(tmp_path / "results")
    assert run.results == [11.0, 21.0]
    assert len(run.trace.of(op="all_reduce")) == 2
    (tmp_path / "results" / "rank1.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"ranks \[1\] of 2"):
        read_results(tmp_path / "results")


def test_a_job_of_other_versions_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torchrun, "versions", lambda: "Python 3.9 and torch 1.13")
    job = write_job(sum_of_ranks, tmp_path / "job.pkl")
    assert under_torchrun(job, tmp_path / "results").returncode != 0
    with pytest.raises(RankFailed, match=r"has Python 3\.\d+ and torch 2\.\d+, and the job was written with Python 3.9"):
        read_results(tmp_path / "results")


SPLITS_OFF = """
import os, sys, types
from utils.ranks.job import Job
from utils.ranks.launcher import launch
from utils.ranks.payload import NotebookTask, pack
from utils.ranks.place import Place
from utils.ranks.run import finish
from utils.ranks.server import RankServer

def look():
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass  # the folder itself, closed by now
    return "before" in sys.modules, "after" in sys.modules, sys.argv[1] in links

kept_open = os.open(sys.argv[1], os.O_RDONLY | os.O_CREAT)
os.set_inheritable(kept_open, True)
sys.modules["before"] = types.ModuleType("before")
server = RankServer.split_off()
sys.modules["after"] = types.ModuleType("after")

class Copied(Place):
    def server(self):
        return server

job = Job(NotebookTask.of(look, has_inputs=False).packed(), [pack(None, "nothing")] * 2)
print(finish(launch(job, Copied()), job.timeout_s).results, sys.stdin.read())
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_server_that_is_a_copy_has_what_was_imported_before_and_no_file(tmp_path):
    done = subprocess.run([sys.executable, "-c", SPLITS_OFF, str(tmp_path / "file")], input="all of stdin",
                          capture_output=True, text=True)
    assert done.stdout == "[(True, False, False), (True, False, False)] all of stdin\n", done.stderr


FIRST_CELL = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
from grader import check
from utils.ranks import server

print(server._server_of.cache_info().currsize)
"""


@pytest.mark.parametrize("later, started", [("", "1"), ("1", "0")])
def test_a_notebooks_first_cell_starts_the_server_unless_told_not_to(later, started):
    done = subprocess.run([sys.executable, "-c", FIRST_CELL], env={**os.environ, "RANKS_LATER": later}, capture_output=True,
                          text=True)
    assert done.stdout.strip() == started, done.stderr


def test_an_interrupt_before_the_ranks_have_met_is_one():
    class Interrupted(Place):
        def open(self, readiness, processes):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(Job(b"", [b"", b""]), Interrupted())


# ── what is kept back, and late ranks ──


def kept_back(task, late_s=(), **options):
    """The outcome of a task on two ranks, or on as many as late_s has."""
    n = len(late_s) or 2
    kept = tuple(bytes([rank]) for rank in range(n))
    return launch(Job(cloudpickle.dumps(task), [b""] * n, asked_for=kept, late_s=late_s, **options))


def test_what_a_rank_asks_for_is_not_in_its_process_before():
    def looks(blob, done, ask):
        import gc
        import queue

        time.sleep(0.3)
        waiting = [each for each in gc.get_objects() if isinstance(each, queue.SimpleQueue)]
        return str([all(each.empty() for each in waiting), list(ask())]).encode()

    assert kept_back(looks).blobs == {0: b"[True, [0]]", 1: b"[True, [1]]"}


def test_who_is_late_is_given_its_input_later_and_the_others_wait_without_a_verdict():
    def meet(blob, done, ask):
        import json
        import time

        asked_s = time.monotonic()
        ask()
        began_s = time.monotonic()
        dist.all_reduce(torch.ones(3))
        return json.dumps([asked_s, began_s, time.monotonic()]).encode()

    outcome = kept_back(meet, (0.0, 0.9, 0.0), timeout_s=0.5)
    asked, began, over = zip(*(json.loads(outcome.blobs[rank]) for rank in range(3)), strict=True)
    assert not outcome.stuck and not outcome.timed_out and not outcome.errors
    assert began[1] - max(asked) > 0.85 and max(began[0] - asked[0], began[2] - asked[2]) < 0.5
    assert min(over) > began[1]


def test_a_late_rank_is_held_up_where_all_pause():
    def pauses(blob, done, ask):
        from utils.trace.spans import HELD_UP, pause

        started = time.monotonic()
        pause(HELD_UP)
        pause("looked at")
        return str(time.monotonic() - started).encode()

    lasted = {rank: float(blob) for rank, blob in kept_back(pauses, (0.0, 0.6)).blobs.items()}
    assert lasted[0] < 0.5 and 0.6 <= lasted[1] < 1.2


def test_where_a_rank_fails_before_it_asks_the_run_ends():
    def fails(blob, done, ask):
        if dist.get_rank() == 0:
            raise KeyError("before")
        dist.all_reduce(torch.ones(len(ask())))
        return b""

    outcome = kept_back(fails, (0.0, 0.1))
    assert [facts["type"] for _, facts in outcome.errors] == ["KeyError"]


def test_who_reads_nothing_stops_nobody():
    ours, theirs = Pipe()
    give_up_sending_after(1.0, ours)
    started = time.monotonic()
    with pytest.raises(OSError):
        Channel(ours).send("asked for", bytes(10 << 20))
    assert time.monotonic() - started < 10
    theirs.close()


def test_what_takes_long_to_import_is_imported_once_for_all_ranks():
    import torch.distributed.fsdp

    def shards():
        before = set(sys.modules)
        torch.distributed.fsdp.fully_shard(torch.nn.Linear(4, 4))
        return [name for name in set(sys.modules) - before if name.startswith(("torch.distributed", "torch._dynamo"))]

    def trains():
        module = torch.nn.Linear(4, 4)
        torch.optim.SGD(module.parameters(), lr=0.1).step()
        return "torch._dynamo" in sys.modules

    assert run_ranks(shards, 2).results == [[], []]
    assert run_ranks(trains, 2).results == [True, True]


def test_where_rank_0_cannot_be_reached_a_job_runs_without_verdicts(monkeypatch, capsys):
    store, closed = dist.HashStore(), socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    store.set(oversight.PLACE, f"{port} token")
    assert oversight.connected(0, 1, store) is None
    assert f"can't reach port {port} of 127.0.0.1" in capsys.readouterr().err


def test_code_that_travels_keeps_the_name_of_its_file():
    """cloudpickle 3.1.3 leaves it out, and then no error could name a student's line."""
    assert cloudpickle.loads(pack(lambda: None, "a function")).__code__.co_filename == __file__
