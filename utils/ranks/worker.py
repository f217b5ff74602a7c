"""What runs inside a rank: meet the others, call the task, report how it ended."""

import contextlib
import ctypes
import datetime
import functools
import gc
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import TextIO

import cloudpickle
import torch
import torch.distributed as dist

from utils.ranks.channel import Channel, Message
from utils.ranks.error_facts import describe_error
from utils.ranks.fresh_process import Surroundings, draw_anew, name_rank
from utils.ranks.payload import name_hidden_modules
from utils.trace.memory import MemoryMeter
from utils.trace.recorder import Recorder
from utils.trace.spans import RECORDER
from utils.trace.threads import idle_threads
from utils.trace.traced_group import start_recording
from utils.trace.user_code import is_user_file
from utils.trace.wire import connection_counters

name_hidden_modules()
PR_SET_PDEATHSIG = 1
NEVER = datetime.timedelta(days=1)  # the parent recognises a deadlock; torch's own time-out must not come first
LAZY_FROM = 16
SAMPLE_EVERY_S = 0.2


@dataclass(frozen=True)
class Settings:
    """What a rank must know before it starts."""

    rank: int
    world_size: int
    backend: str
    meeting_place: str | int  # a file, or a port of this machine's loopback
    trace: bool
    memory: bool
    machinery: tuple[str, ...]  # see utils.ranks.job
    surroundings: Surroundings | None  # what it takes over; None: it has them
    seed: int | None  # of random numbers that the program does not seed


def rank_main(connection: Connection, stdout: Connection, stderr: Connection, settings: Settings) -> None:
    """Entry point of a rank's process. Does not return: the process ends when the parent says so or is gone."""
    begin_process(stdout, stderr)
    channel = Channel(connection)
    recorder = Recorder(channel.send, settings.machinery)
    run_once(channel, recorder, settings, Inbox(channel, recorder))
    os._exit(0)


def begin_process(stdout: Connection, stderr: Connection) -> None:
    """What a rank's process does before all else."""
    gc.freeze()  # what the server imported is not looked at again, so its pages stay shared
    let_others_finish()
    leave_terminal()
    sys.stdout = _redirected(stdout, 1)
    sys.stderr = _redirected(stderr, 2)


def run_once(channel: Channel, recorder: Recorder, settings: Settings, inbox: "Inbox") -> None:
    """Meet the others, take a task and an input, perform, and wait until the parent has seen enough."""
    before = _work(channel, recorder, settings, inbox.blobs)
    _flush()
    inbox.settle.wait()
    channel.send("wire", before=before, after=connection_counters() if settings.trace else {})
    inbox.leave.wait()


def join_group(settings: Settings) -> None:
    """Meet the other ranks and make the default group.

    They meet through a file (no port to choose, or to be found by others), or at a port where they share no files.
    """
    torch.set_num_threads(1)
    if settings.backend == "nccl":
        torch.cuda.set_device(settings.rank)
        torch.set_default_device(f"cuda:{settings.rank}")
        os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"  # a wait that only queues work would hide who waits for whom
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # libraries ask what is there, and would put their part of a model on it
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    if settings.world_size > LAZY_FROM:
        os.environ["TORCH_GLOO_LAZY_INIT"] = "1"  # connect two ranks when they first speak, not all with all
    if isinstance(settings.meeting_place, int):
        store = dist.TCPStore("127.0.0.1", settings.meeting_place)
    else:
        store = dist.FileStore(settings.meeting_place, settings.world_size)
    backend = "cpu:gloo,cuda:nccl" if settings.backend == "nccl" else "gloo"
    dist.init_process_group(backend, store=store, rank=settings.rank, world_size=settings.world_size, timeout=NEVER)


def perform(report, recorder: Recorder, trace: bool, memory: bool, next_blob: Callable[[], bytes]) -> None:
    """Call the task with its input and report "returned" with its bytes, or "raised"; the group exists already.

    The task is a `NotebookTask` where run_ranks made the job.

    next_blob() → first the task, then its input, which nobody here keeps: whoever looks through frames finds neither.
    task(input bytes, done, ask) -> result bytes; it calls done() when the student's function has returned, while its result
    is still alive. ask() → the bytes that the job keeps for who asks, and that are not in this process before.
    """
    meter = MemoryMeter()

    def ask() -> bytes:
        report("asks")
        return next_blob()

    try:
        if trace:
            recorder.note_threads()
        task = cloudpickle.loads(next_blob())
        with meter if memory else contextlib.nullcontext():
            result = task(next_blob(), meter.note_end, ask)
    except BaseException as error:
        ending = ("raised", b"", describe_error(error, recorder.machinery))
        del error
    else:
        ending = ("returned", result, {})
    if memory:
        report("memory", **asdict(meter.result()))
    _flush()
    recorder.finish()
    report(ending[0], ending[1], time=time.monotonic(), **ending[2])


def _work(channel: Channel, recorder: Recorder, settings: Settings, work: queue.SimpleQueue) -> dict:
    before: dict = {}
    try:
        if settings.surroundings is not None:
            settings.surroundings.take_over()
        name_rank(settings.rank, settings.world_size)
        draw_anew(settings.seed)
        if settings.trace:
            start_recording(recorder)
        join_group(settings)
        before = connection_counters() if settings.trace else {}
        channel.send("ready", time=time.monotonic())
    except BaseException as error:
        channel.send("raised", time=time.monotonic(), **describe_error(error))
        return before
    if settings.trace:
        RECORDER.set(recorder)
    perform(channel.send, recorder, settings.trace, settings.memory, work.get)
    return before


def leave_terminal() -> None:
    """Own session, so that Ctrl-C reaches the kernel only; die when the parent dies, however it dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setsid") and os.getpid() != os.getsid(0):
        os.setsid()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def let_others_finish() -> None:
    """Where it wakes, a rank does not push aside who is at work: many ranks share few cores.

    gloo's own thread looks again and again for a lock whose owner has lost its core to a rank that it has just woken:
    on two cores, two ranks' all-reduce took five times as long.
    """
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _redirected(pipe: Connection, descriptor: int) -> TextIO:
    os.dup2(pipe.fileno(), descriptor)
    pipe.close()
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed by the task
            stream.flush()


class Inbox:
    """Hears the parent on a thread of its own while the main thread works; ends this process when the parent is gone.

    lost: what to do then, if something else.
    """

    def __init__(self, channel: Channel, recorder: Recorder, lost: Callable[[], None] | None = None):
        self.blobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()  # the task, its input, what it asked for
        self.settle, self.leave = threading.Event(), threading.Event()
        self._channel, self._sampler = channel, _Sampler(recorder, channel)
        self._looked_at = recorder.looked_at = threading.Event()
        self._lost = lost or functools.partial(os._exit, 1)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                if self._channel.connection.poll(SAMPLE_EVERY_S):
                    for message in self._channel.arrivals():
                        self._take(message)
                        del message
                else:
                    self._sampler.tick()
        except (EOFError, OSError):
            self._lost()
            self.leave.set()

    def _take(self, message: Message) -> None:
        kind, _ = message.read()
        if kind == "stack":
            self._channel.send("stack", frames=self._sampler.main_stack())
        elif kind == "looked at":
            self._looked_at.set()
        elif kind == "settle":
            self.settle.set()
        elif kind == "leave":
            self.leave.set()
            self.settle.set()
        else:  # "task", "input", "asked for": `perform` takes them in this order
            self.blobs.put(message.blob)


class _Sampler:
    """Looks, from time to time, at what no report tells: waits in torch's own C++ code, and threads with nothing to do."""

    def __init__(self, recorder: Recorder, channel: Channel):
        self._recorder, self._channel = recorder, channel
        self._main = threading.main_thread()
        self._seen: tuple | None = None
        self._reported: tuple | None = None
        self._threads_seen: tuple | None = None
        self._threads_reported: tuple | None = None

    def main_stack(self) -> list[list]:
        """[file, line, function] of the main thread's frames, outermost first."""
        frame = sys._current_frames().get(self._main.ident)
        frames = [[f.filename, f.lineno, f.name] for f in traceback.extract_stack(frame)]
        return [f for f in frames if is_user_file(f[0], self._recorder.machinery)] or frames[-4:]

    def tick(self) -> None:
        self._recorder.flush()
        waits_for = self._recorder.main_waits_for
        self._look_at_threads(self._look_at_main_thread() if waits_for is None else waits_for)

    def _look_at_threads(self, waits_for: int | None) -> None:
        """Tell when the main thread waits and no other one may go on: each has nothing to do, or waits for a call itself."""
        found, calls = None, dict(self._recorder.threads_wait_for)
        if waits_for is not None and not self._recorder.is_alone():
            idle = idle_threads(self._recorder.own_threads | calls.keys(), self._recorder.machinery)
            found = None if idle is None else (waits_for, (*idle.items(),), (*calls.items(),))
        if found == self._threads_seen and found != self._threads_reported:
            self._threads_reported = found
            idle = None if found is None else [name for _, name in found[1]]
            self._channel.send("threads", idle=idle, calls=[*calls.values()])
        self._threads_seen = found

    def _look_at_main_thread(self) -> int | None:
        """The call that the main thread waits for where it sleeps in torch's own code (DDP's reducer does); told once."""
        number = self._recorder.oldest_unfinished()
        frame = sys._current_frames().get(self._main.ident)
        if number is None or frame is None or is_user_file(frame.f_code.co_filename, self._recorder.machinery):
            self._seen = None
            return None
        if "torch" not in frame.f_code.co_filename:
            return None
        now = (number, id(frame), frame.f_lasti, self._cpu_time())
        if now == self._seen and now != self._reported:
            self._reported = now
            source = self.main_stack()
            self._channel.send("wait", number=number, alone=self._recorder.is_alone(), time=time.monotonic(),
                               source=source[-1] if source else None)
        self._seen = now
        return number if now == self._reported else None

    def _cpu_time(self) -> int | None:
        """Clock ticks that the main thread has used, or None where that cannot be read."""
        try:
            with open(f"/proc/self/task/{self._main.native_id}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])
        except (OSError, IndexError, ValueError):
            return None
