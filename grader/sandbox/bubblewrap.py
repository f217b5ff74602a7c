"""Run a program shut off from everything but what it is given: bubblewrap around it, and limits on what it may use up."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil

from grader.sandbox.cgroup import ControlGroup

ROOT = Path(__file__).resolve().parents[2]
# All of the project that enters, but for how exercises are called.
CODE = ("utils", "grader/__init__.py", "grader/evidence", "grader/calling", "grader/sandbox")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache",
          "/etc/localtime")
EXCHANGE = "/usr/local/share/nbgrader"  # nbgrader's own choice for what students hand in
LOOK_EVERY_S = 0.1
_POLITELY = ("nice", "-n", "10") if shutil.which("nice") else ()  # whoever works at this machine comes first
LOG_BYTES = 1 << 16
# A process's memory that is not a file's: quick, and too much where forked processes share pages; or, slow, with shared
# pages divided among those who share them.
QUICK_COUNT = ("status", ("RssAnon:", "RssShmem:"))
SHARED_COUNT = ("smaps_rollup", ("Pss_Anon:", "Pss_Shmem:"))
LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # if the kernel was built to
TASKS_OF_OTHERS = 1000  # that may come meanwhile without alarm, where only the whole machine can be counted


class NoSandbox(RuntimeError):
    """bubblewrap is not here, or may not do its work."""


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


@dataclass(frozen=True)
class Finished:
    """What a program left. problem: in words, why it was ended or how it failed; "" if it ended well."""

    output: bytes
    log: str
    problem: str
    peak_bytes: int


def require() -> None:
    """Raises: NoSandbox, saying what to do."""
    if shutil.which("bwrap") is None:
        raise NoSandbox(
            "bubblewrap is not installed, so submissions are not run: their code could read and change whatever you "
            "can. Install it (Debian, Ubuntu: apt install bubblewrap), mark on a Linux machine, or, if you trust every "
            "submission, allow it: nbgrader autograde ... --MarkExercises.unsafe=True")
    as_ranks_do = ["unshare", "--mount", "--ipc", "--pid", "--fork", "--mount-proc"] if shutil.which("unshare") else []
    tried = subprocess.run([*_bubblewrap(1 << 20, may_isolate=True), *as_ranks_do, "true"], capture_output=True, text=True)
    if tried.returncode:
        raise NoSandbox(f"bubblewrap may not make a sandbox here: {tried.stderr.strip()}. In a container, allow user "
                        "namespaces (Docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined); "
                        "on Ubuntu, `sysctl kernel.apparmor_restrict_unprivileged_userns` must be 0")


def run(arguments: Sequence[str], data: bytes, limits: Limits = Limits(), may_isolate: bool = False,
        unsafe: bool = False, code: Sequence[str] = ()) -> Finished:
    """Run Python with these arguments and with `data` on its standard input, and take what it writes.

    It sees the system's programs, this Python, utils and grader.sandbox, all read-only, and empty folders of its own; its
    network is a loopback of its own, its environment is made anew. may_isolate: it may make namespaces within
    (grader.sandbox.isolation). unsafe: none of this, only the limits that do not need it.
    """
    group = ControlGroup(limits.memory_bytes + 2 * limits.disk_bytes, limits.tasks)
    try:
        with _command(limits, may_isolate, unsafe, (*CODE, *code)) as (prefix, environment, folder):
            process = subprocess.Popen(
                [*group.command(), *_POLITELY, *prefix, sys.executable, *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=folder,
                start_new_session=True)
            return _Watch(process, limits, group, not unsafe).follow(data)
    finally:
        group.remove()


def _own_limits(limits: Limits, alone: bool = True) -> list[str]:
    """What the kernel holds each process to; alone: in a sandbox, whose tasks it counts apart (but not where root's).

    Memory: a little more than all may use together, so that the watch, not an error in a rank, is what ends a hoarder.
    """
    if shutil.which("prlimit") is None:
        return []
    tasks = [f"--nproc={limits.tasks}"] if alone else []
    memory = f"--data={limits.memory_bytes + limits.disk_bytes}"
    return ["prlimit", f"--cpu={limits.cpu_s}", memory, "--core=0", *tasks, "--"]


@contextlib.contextmanager
def _command(limits: Limits, may_isolate: bool, unsafe: bool, code: Sequence[str],
             ) -> Iterator[tuple[list[str], dict[str, str], str]]:
    """(what stands before the program, environment, folder)"""
    if not unsafe:
        command = _bubblewrap(limits.disk_bytes, may_isolate, code) + _own_limits(limits)
        yield command, {"PATH": os.environ.get("PATH", os.defpath)}, "/"
        return
    with tempfile.TemporaryDirectory(prefix="marking-", ignore_cleanup_errors=True) as folder:
        for part in code:
            (Path(folder) / "course" / part).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / "course" / part).symlink_to(ROOT / part)
        yield _own_limits(limits, alone=False), {**os.environ, **_environment(f"{folder}/course", folder)}, folder


def _environment(course: str, home: str) -> dict[str, str]:
    return {"PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin", "HOME": home, "USER": "student", "LANG": "C.UTF-8",
            "PYTHONPATH": course, "GRADER_CHECKS": "grader.sandbox.hand_over", "PYTHONDONTWRITEBYTECODE": "1",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # the others that are marked need the processors too


def _bubblewrap(disk_bytes: int, may_isolate: bool, code: Sequence[str] = CODE) -> list[str]:
    command = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts",
               "--unshare-cgroup-try", "--uid", "0", "--gid", "0", "--hostname", "sandbox", "--cap-drop", "ALL",
               *(["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP",  # to make namespaces and to give all this up
                  "--cap-add", "CAP_NET_RAW", "--cap-add", "CAP_SYS_PTRACE"] if may_isolate else []),  # for the witness
               "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]  # root could set the host's
    for folder in ("/dev/shm", "/tmp"):  # before what follows: this Python may itself be below /tmp
        command += ["--size", str(disk_bytes), "--tmpfs", folder]
    for path in SYSTEM:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            command += ["--ro-bind", path, path]
    hidden = [path for path in (EXCHANGE, str(ROOT)) if path.startswith("/usr/") and os.path.isdir(path)]
    for path in hidden:
        command += ["--tmpfs", path]
    for prefix in dict.fromkeys((sys.base_prefix, sys.prefix)):
        if not f"{prefix}/".startswith("/usr/") or any(prefix.startswith(f"{path}/") for path in hidden):
            command += ["--ro-bind", prefix, prefix]
    for part in code:
        command += ["--ro-bind", str(ROOT / part), f"/course/{part}"]
    command += ["--dir", "/tmp/home", "--chdir", "/tmp/home", "--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in _environment("/course", "/tmp/home").items():
        command += ["--setenv", name, value]
    return command


class _Watch:
    """Feeds a process, takes what it writes, and ends it when it goes beyond a limit."""

    def __init__(self, process: subprocess.Popen, limits: Limits, group: ControlGroup, sandboxed: bool):
        self._process, self._limits, self._group, self._sandboxed = process, limits, group, sandboxed
        self._output, self._log = bytearray(), bytearray()
        self._problem = ""
        self._peak_bytes = 0
        self._looked_at_bytes = 0  # by the quick count, when the slow one was last taken
        self._tasks_before = _all_tasks()

    def follow(self, data: bytes) -> Finished:
        """Until it ends; nothing that it started is left behind, whatever happens."""
        threads = [threading.Thread(target=target, args=arguments, daemon=True) for target, arguments in (
            (self._feed, (data,)), (self._take, (self._process.stdout, self._output, self._limits.output_bytes, False)),
            (self._take, (self._process.stderr, self._log, LOG_BYTES, True)))]
        try:
            for thread in threads:
                thread.start()
            self._look_until_over()
        finally:
            self._end()
        for thread in threads:
            thread.join()
        if not self._problem and self._group.memory_refused():
            self._problem = self._limits.memory_exceeded  # the system was quicker than our look
        if not self._problem and self._process.returncode:
            self._problem = f"the program ended with exit code {self._process.returncode}"
        return Finished(bytes(self._output), self._log.decode(errors="replace"), self._problem, self._peak_bytes)

    def _feed(self, data: bytes) -> None:
        with contextlib.suppress(OSError), self._process.stdin as stdin:
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
        ends = time.monotonic() + self._limits.wall_s
        while not self._problem:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK_EVERY_S)
                return
            if self._group.tasks_refused() or self._machine_is_flooded():
                self._problem = f"it started more than {self._limits.tasks} processes and threads"
                return
            family = self._family()
            if len(family) > self._limits.processes:
                self._problem = f"it started more than {self._limits.processes} processes"
                return
            used_bytes = sum(_bytes_of(process, *QUICK_COUNT) for process in family)
            if used_bytes > min(self._limits.memory_bytes, 1.2 * self._looked_at_bytes):
                self._looked_at_bytes = max(self._looked_at_bytes, used_bytes)
                used_bytes = sum(_bytes_of(process, *SHARED_COUNT) for process in family)
                self._peak_bytes = max(self._peak_bytes, used_bytes)
            if time.monotonic() > ends:
                self._problem = f"it was not done after {self._limits.wall_s:g} s"
            elif used_bytes > self._limits.memory_bytes:
                self._problem = self._limits.memory_exceeded

    def _machine_is_flooded(self) -> bool:
        """Where no control group counts: far more tasks on the whole machine than when this one began."""
        return "pids" not in self._group.limits and _all_tasks() > self._tasks_before + TASKS_OF_OTHERS + self._limits.tasks

    def _family(self) -> list[int]:
        """The process and all that it started, by their ids."""
        family = [self._process.pid]
        for pid in family:  # it grows as it is read
            family += _children(pid)
        return family

    def _end(self) -> None:
        """In a sandbox all end with the first process; without one, those that are still children."""
        family = [] if self._sandboxed or self._process.poll() is not None else self._family()
        self._process.kill()
        for pid in family:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


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
    except (OSError, ValueError):
        return 0  # ended meanwhile
