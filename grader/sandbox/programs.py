"""Programs that are followed: forked into a sandbox from a Python that has torch in memory, or, without one, started."""

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from grader.sandbox.entering import IN, Entry, enter
from grader.sandbox.watch import family_of
from utils.ranks.server import COMPILER, THEIRS, RankServer

ROOT = Path(__file__).resolve().parents[2]
# What programs of a sandbox would else import each time; of ours nothing, which a sandbox has at a place of its own.
PRELOAD = (*THEIRS, COMPILER, "cloudpickle", "safetensors.torch", "psutil", "ipykernel.kernelapp", "nbclient")


class NotEntered(RuntimeError):
    """No sandbox could be made, or none entered; in words, why."""


class Forked:
    """A program in a sandbox, which ends with it. Raises: NotEntered."""

    def __init__(self, before: Sequence[str], bubblewrap: Sequence[str], within: Sequence[str], entry: Entry):
        """before: what stands before bubblewrap. bubblewrap: up to what it is to start. within: what stands before that.
        entry: as yet without a holder."""
        self._holder, first_process = _held_open(before, bubblewrap, within)
        try:
            self._server = source().server(entry.environment, first_process)  # kept: it must outlive the program
            self._begin(replace(entry, holder=first_process))
        except BaseException:
            self._let_go()
            raise
        self.roots = (self._holder.pid, self._program.pid)

    def _begin(self, entry: Entry) -> None:
        (stdin, self.stdin), (self.stdout, stdout), (self.stderr, stderr), (word, entered) = (_pipe() for _ in range(4))
        with stdin, stdout, stderr, entered:
            self._program = self._server.fork(enter, entry, [stdin, stdout, stderr, entered])
        with word:
            said = word.read()
        if said != IN:
            self._program.join()
            self._program.close()
            raise NotEntered(said.decode() or "the process that should enter it ended")

    @property
    def returncode(self) -> int | None:
        return self._program.exitcode

    def has_ended(self, within_s: float) -> bool:
        """Wait for its end, at most so long."""
        self._program.join(within_s)
        return self._program.exitcode is not None

    def end(self) -> None:
        """With all that is in its sandbox."""
        self._let_go()
        self._program.join()
        self._program.close()

    def _let_go(self) -> None:
        """The sandbox's first process ends with bubblewrap, and with it all others."""
        self._holder.kill()
        self._holder.communicate()


class Started:
    """A program like any other."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: str):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         env=environment, cwd=folder, start_new_session=True)
        self.stdin, self.stdout, self.stderr = self._process.stdin, self._process.stdout, self._process.stderr
        self.roots = (self._process.pid,)

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def has_ended(self, within_s: float) -> bool:
        """Wait for its end, at most so long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
        return self._process.returncode is not None

    def end(self) -> None:
        """With those that are still below it."""
        family = [] if self._process.poll() is not None else family_of(self.roots)
        self._process.kill()
        for process in family:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    read, write = os.pipe()
    return os.fdopen(read, "rb"), os.fdopen(write, "wb")


def _held_open(before: Sequence[str], bubblewrap: Sequence[str], within: Sequence[str] = ()) -> tuple[subprocess.Popen, int]:
    """(bubblewrap, the first process of its sandbox), once all is mounted: then `cat`, within, gives a line back.

    Its options are in a file, for its command line can be read within, and they tell the host's folders.
    """
    told, tell = os.pipe()
    with open(told) as info, os.fdopen(os.memfd_create("options"), "wb") as options:
        options.write(b"\0".join(map(os.fsencode, bubblewrap[1:])))
        options.seek(0)
        command = [*before, bubblewrap[0], "--info-fd", str(tell), "--args", str(options.fileno()), *within, "cat"]
        try:
            holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      pass_fds=[tell, options.fileno()], start_new_session=True)
        finally:
            os.close(tell)
        with contextlib.suppress(BrokenPipeError):
            holder.stdin.write(b"\n")
            holder.stdin.flush()
        if holder.stdout.readline() == b"\n":
            return holder, json.loads(info.read())["child-pid"]
    raise NotEntered(holder.communicate()[1].decode().strip())


class Source:
    """Keeps a server, begun when it is first needed, and anew if it has ended. No two processes have the same."""

    def __init__(self):
        self._process = os.getpid()
        self._server: RankServer | None = None
        self._for_child: RankServer | None = None
        self._holder: subprocess.Popen | None = None
        self._lock = threading.Lock()

    def server(self, environment: Mapping[str, str], first_process: int) -> RankServer:
        """It knows nothing of who asks: neither files nor environment."""
        with self._lock:
            if self._process != os.getpid():
                self._process, self._server, self._for_child = os.getpid(), self._for_child, None
            if self._server is None or not self._server.is_alive():
                self._server = _begun(environment, first_process)
            return self._server

    def prepare_for_child(self, bubblewrap: Sequence[str], environment: Mapping[str, str]) -> None:
        """What is forked next from this process finds a server of its own, a copy of this one's, with torch in memory.

        bubblewrap: up to what it is to start; it is ended with this process.
        """
        if self._server is None or not self._server.is_alive():
            self._holder, first_process = _held_open([], bubblewrap)
            self._server = _begun(environment, first_process)
        self._for_child = self._server.copy()


@functools.cache
def source() -> Source:
    """The one of this process, or what it has of its parent's."""
    return Source()


def _begun(environment: Mapping[str, str], first_process: int) -> RankServer:
    own = {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "HOME")}
    return RankServer(functools.partial(_begin_server, own, first_process))


def _begin_server(environment: dict[str, str], first_process: int, far_end: socket.socket) -> subprocess.Popen:
    """Python as the sandbox has it, from a read-only mount: for a program may change the mode of the file that it runs.

    Where the course lies it is told, and not by its command line, which programs in a sandbox inherit.
    """
    program = ("import sys; sys.path[0] = sys.stdin.read(); from utils.ranks.server import serve_to_the_end; "
               f"serve_to_the_end({far_end.fileno()}, {PRELOAD!r})")
    server = subprocess.Popen(
        [sys.executable, "-s", "-c", program], executable=f"/proc/{first_process}/root{os.path.realpath(sys.executable)}",
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**environment, "HOME": "/nonexistent"}, cwd="/",
        pass_fds=[far_end.fileno()], start_new_session=True)
    with contextlib.suppress(BrokenPipeError), server.stdin:
        server.stdin.write(os.fsencode(ROOT))
    return server
