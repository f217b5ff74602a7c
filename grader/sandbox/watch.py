"""Follows a program in a sandbox: feeds it, takes what it writes, and ends it when it goes beyond a limit."""

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import psutil

from grader.sandbox.cgroup import ControlGroup
from utils.ranks.fair_clock import FairClock

LOOK_EVERY_S = 0.1
LOG_BYTES = 1 << 16
# A process's memory that is not a file's: quick, and too much where forked processes share pages; or, slow, with shared
# pages divided among those who share them.
QUICK_COUNT = ("status", ("RssAnon:", "RssShmem:"))
SHARED_COUNT = ("smaps_rollup", ("Pss_Anon:", "Pss_Shmem:"))
LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # if the kernel was built to
TASKS_OF_OTHERS = 1000  # that may come meanwhile without alarm, where only the whole machine can be counted


@dataclass(frozen=True)
class Limits:
    """What a program may use up before it is ended."""

    wall_s: float = 900.0
    cpu_s: int = 1800  # of one process
    memory_bytes: int = 4 << 30  # of all processes together
    processes: int = 100
    tasks: int = 400  # processes and threads
    disk_bytes: int = 512 << 20  # of each writable folder; they are in memory
    output_bytes: int = 512 << 20

    @property
    def memory_exceeded(self) -> str:
        """In words."""
        return f"it used more than {self.memory_bytes / (1 << 30):g} GiB of memory"


USUAL = Limits()


@dataclass(frozen=True)
class Finished:
    """What a program left. problem: in words, why it was ended or how it failed; "" if it ended well."""

    output: bytes
    log: str
    problem: str
    peak_bytes: int


class Program(Protocol):
    """What is followed."""

    stdin: BinaryIO
    stdout: BinaryIO
    stderr: BinaryIO
    roots: tuple[int, ...]  # processes: all that belongs to it is below them
    returncode: int | None

    def has_ended(self, within_s: float) -> bool:
        """Wait for its end, at most so long; returncode is known then."""

    def end(self) -> None:
        """Kill it, with all that it started, and wait."""


class Watch:
    """Feeds a program, takes what it writes, and ends it when it goes beyond a limit."""

    def __init__(self, program: Program, limits: Limits, group: ControlGroup):
        self._program, self._limits, self._group = program, limits, group
        self._output, self._log = bytearray(), bytearray()
        self._problem = ""
        self._peak_bytes = 0
        self._looked_at_bytes = 0  # by the quick count, when the slow one was last taken
        self._tasks_before = _all_tasks()

    def follow(self, data: bytes) -> Finished:
        """Until it ends; nothing that it started is left behind, whatever happens."""
        threads = [threading.Thread(target=target, args=arguments, daemon=True) for target, arguments in (
            (self._feed, (data,)), (self._take, (self._program.stdout, self._output, self._limits.output_bytes, False)),
            (self._take, (self._program.stderr, self._log, LOG_BYTES, True)))]
        try:
            for thread in threads:
                thread.start()
            self._look_until_over()
        finally:
            self._program.end()
        for thread in threads:
            thread.join()
        if not self._problem and self._group.memory_refused():
            self._problem = self._limits.memory_exceeded  # the system was quicker than our look
        if not self._problem and self._program.returncode:
            self._problem = f"the program ended with exit code {self._program.returncode}"
        return Finished(bytes(self._output), self._log.decode(errors="replace"), self._problem, self._peak_bytes)

    def _feed(self, data: bytes) -> None:
        with contextlib.suppress(OSError), self._program.stdin as stdin:
            stdin.write(data)

    def _take(self, pipe: BinaryIO, into: bytearray, limit: int, keep_end: bool) -> None:
        taken = 0
        while chunk := pipe.read1(1 << 16):
            taken += len(chunk)
            if taken > self._limits.output_bytes:
                self._problem = self._problem or f"it wrote more than {limit >> 20} MiB"
                continue
            into.extend(chunk)
            if keep_end and len(into) > 2 * limit:
                del into[:-limit]
        pipe.close()

    def _look_until_over(self) -> None:
        family: list[int] = []
        clock = FairClock(lambda: family)  # a busy machine takes nobody's time away
        ends = clock.now() + self._limits.wall_s
        while not self._problem:
            if self._program.has_ended(LOOK_EVERY_S):
                return
            family = family_of(self._program.roots)
            problem = self._too_many(family) or self._too_much(family)
            if not problem and clock.now() > ends:
                problem = f"it was not done after {self._limits.wall_s:g} s"
            self._problem = self._problem or problem

    def _too_many(self, family: list[int]) -> str:
        """In words, if it has more processes or threads than it may have."""
        if self._group.tasks_refused() or self._machine_is_flooded():
            return f"it started more than {self._limits.tasks} processes and threads"
        if len(family) > self._limits.processes:
            return f"it started more than {self._limits.processes} processes"
        return ""

    def _too_much(self, family: list[int]) -> str:
        """In words, if it has more memory than it may have; or more processes, for where many fork, to count takes long."""
        used_bytes = sum(_bytes_of(process, *QUICK_COUNT) for process in family)
        if used_bytes <= min(self._limits.memory_bytes, 1.2 * self._looked_at_bytes):
            return ""
        self._looked_at_bytes = max(self._looked_at_bytes, used_bytes)
        used_bytes, looked = 0, time.monotonic()
        for process in family:
            used_bytes += _bytes_of(process, *SHARED_COUNT)
            if time.monotonic() > looked + LOOK_EVERY_S:
                if problem := self._too_many(family_of(self._program.roots)):
                    return problem
                looked = time.monotonic()
        self._peak_bytes = max(self._peak_bytes, used_bytes)
        return self._limits.memory_exceeded if used_bytes > self._limits.memory_bytes else ""

    def _machine_is_flooded(self) -> bool:
        """Where no control group counts: far more tasks on the whole machine than when this one began."""
        return "pids" not in self._group.limits and _all_tasks() > self._tasks_before + TASKS_OF_OTHERS + self._limits.tasks


def family_of(roots: Iterable[int]) -> list[int]:
    """These processes and all that they started."""
    family = list(roots)
    for pid in family:  # it grows as it is read
        family += _children(pid)
    return family


def _all_tasks() -> int:
    """Processes and threads of the whole machine."""
    try:
        with open("/proc/loadavg") as file:
            return int(file.read().split()[3].split("/")[1])
    except (OSError, ValueError, IndexError):
        return 0


def _children(pid: int) -> list[int]:
    """Asked of the kernel for this one process: to look through all of the machine's, ten times a second, is dear."""
    if not LISTS_CHILDREN:
        with contextlib.suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
        return []
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                children += map(int, file.read().split())
    return children


def _bytes_of(pid: int, file: str, fields: tuple[str, ...]) -> int:
    try:
        with open(f"/proc/{pid}/{file}") as lines:
            return sum(int(line.split()[1]) for line in lines if line.startswith(fields)) << 10
    except PermissionError:  # a process can hide all but the quick count
        return 0 if file == QUICK_COUNT[0] else _bytes_of(pid, *QUICK_COUNT)
    except (OSError, ValueError):
        return 0  # ended meanwhile
