"""A clean parent for ranks: a process that has torch in memory and forks a rank whenever it is asked to.

It never has the caller's threads, files or half-finished work in it, so forking is safe there, and quick.
"""

import contextlib
import functools
import gc
import importlib
import os
import pickle
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, BinaryIO

from utils.ranks.pages import gather_pages

THEIRS = ("torch", "torch.distributed", "numpy.ctypeslib", "numpy.random")  # what ranks would else import one by one
PRELOAD = (*THEIRS, "utils.ranks.worker")
COMPILER = "torch._dynamo"  # torch imports it, for 0.9 s, at an optimizer's first step
Preload = str | Callable[[], object]  # a module, or what is to be called: whatever it makes is there in each child
_NUMBER = struct.Struct("=q")
_ASKED = b"!"
_SERVER_GONE = 255
IDLE_S = 0.3  # after which a server has time for its memory
MANY_MODULES = 100  # whose memory is worth that time


def start_methods(platform: str) -> tuple[str, ...]:
    """How ranks can begin on a system, the usual way first.

    Apple's libraries may crash in a forked process, and ours was not tried there.
    """
    if not hasattr(os, "fork"):
        return ("spawn",)
    return ("spawn", "forkserver") if platform == "darwin" else ("forkserver", "spawn")


START_METHODS = start_methods(sys.platform)

# ── the near end: whoever starts ranks ──


class RankServer:
    """A server of ranks, seen from whoever asks it."""

    def __init__(self, begin: Callable[[socket.socket], Any]):
        self._socket, far_end = socket.socketpair()
        with far_end:
            self._process = begin(far_end)

    @classmethod
    def fresh(cls) -> "RankServer":
        """A new interpreter, which imports torch by itself while the caller goes on."""
        return cls(_begin_fresh)

    @classmethod
    def split_off(cls, preload: Sequence[Preload] = PRELOAD) -> "RankServer":
        """A copy of this process, with what it has imported; for one with a single thread and no secret in its memory."""
        return cls(functools.partial(_begin_copy, preload=preload))

    def is_alive(self) -> bool:
        """Whether it still listens."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def fork(self, main: Callable, settings: Any, pipes: Sequence[Connection],
             preload: Sequence[Preload] = ()) -> "ForkedProcess":
        """A process that calls main(*pipes, settings). preload: what the server imports, or calls, before it forks.

        Raises: RuntimeError if the server has ended.
        """
        return ForkedProcess(self._ask_to_fork(main, settings, [pipe.fileno() for pipe in pipes], preload))

    def copy(self) -> "RankServer":
        """One that is forked from this one, has imported the same, and can be given to somebody else."""
        return RankServer(self._ask_for_copy)

    def _ask_for_copy(self, far_end: socket.socket) -> None:
        self._ask_to_fork(_serve_as_copy, None, [far_end.fileno()]).close()

    def _ask_to_fork(self, main: Callable, settings: Any, descriptors: list[int],
                     preload: Sequence[Preload] = ()) -> Connection:
        """Where the child's number, and its end, will be told."""
        told, tell = Pipe(duplex=False)
        with tell:
            try:
                self._ask([*descriptors, tell.fileno()], (main, settings, list(preload)))
            except OSError:
                told.close()
                raise RuntimeError(_GONE) from None
        return told

    def import_modules(self, modules: Sequence[str]) -> None:
        """Let it import them now, before anybody waits."""
        self._ask([], (None, None, list(modules)))

    def _ask(self, descriptors: list[int], request: tuple) -> None:
        """The request is in a file, and one byte goes with the descriptors: no interrupt can cut that in half."""
        with _nameless_file() as file:
            file.write(pickle.dumps(request))
            file.flush()
            socket.send_fds(self._socket, [_ASKED], [file.fileno(), *descriptors])


_GONE = "the process that ranks are forked from has ended (its messages are above, or in the log): try again"


@functools.lru_cache(maxsize=1)
def _server_of(process: int) -> RankServer:
    return RankServer.fresh()


def shared_server() -> RankServer:
    """The one server of this process, started when it is first asked for, and again if it has ended."""
    if not _server_of(os.getpid()).is_alive():
        _server_of.cache_clear()
    return _server_of(os.getpid())


def warm_up() -> None:
    """Start it while the reader reads on (not if RANKS_LATER), and let it import what checks of training need."""
    if START_METHODS[0] == "forkserver" and not os.environ.get("RANKS_LATER"):
        shared_server().import_modules([COMPILER])


class ForkedProcess:
    """A rank's process, whose parent is the server. As multiprocessing.Process, as far as ranks need it."""

    def __init__(self, told: Connection):
        self._told = told
        self.sentinel = told.fileno()  # readable once it has ended
        self.exitcode: int | None = None
        number = os.read(self.sentinel, _NUMBER.size)
        if len(number) < _NUMBER.size:
            told.close()
            raise RuntimeError(_GONE)
        self.pid, = _NUMBER.unpack(number)

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end, at most so long."""
        if self.exitcode is None and wait([self.sentinel], timeout_s):
            number = os.read(self.sentinel, _NUMBER.size)
            self.exitcode = _NUMBER.unpack(number)[0] if len(number) == _NUMBER.size else _SERVER_GONE

    def kill(self) -> None:
        self.join(0)
        if self.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self._told.close()


def _nameless_file() -> BinaryIO:
    """In memory where that is possible and allowed."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.fdopen(os.memfd_create("request"), "w+b")
    return tempfile.TemporaryFile()


def _begin_fresh(far_end: socket.socket) -> subprocess.Popen:
    # Ctrl-C is for the kernel, from the first moment on: importing takes a second.
    program = ("import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
               f"sys.path[:] = {sys.path!r}; from utils.ranks.server import serve_to_the_end; "
               f"serve_to_the_end({far_end.fileno()})")
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=[far_end.fileno()])


def _begin_copy(far_end: socket.socket, preload: Sequence[Preload]) -> None:
    if os.fork():
        return
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.closerange(3, far_end.fileno())  # no file of the parent's is kept
        os.closerange(far_end.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    except Exception:
        traceback.print_exc()
        os._exit(1)
    serve_to_the_end(far_end.fileno(), preload, stays=False)


# ── the far end: the server's own process ──


def _serve_as_copy(far_end: Connection, _: None) -> None:
    serve_to_the_end(far_end.fileno(), preload=(), stays=False)


def serve_to_the_end(descriptor: int, preload: Sequence[Preload] = PRELOAD, stays: bool = True) -> None:
    """Fork whatever is asked for, until the near end is gone; then so is this process, without taking torch apart.

    stays: for so many forks that it is worthwhile to prepare its memory for them.
    """
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _prepare(preload)
        server = _Server(socket.socket(fileno=descriptor), stays)
        while server.handle():
            pass
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(0)


class _Server:
    """Requests come in; of each child, its process id goes out and, at its end, its exit code."""

    def __init__(self, near_end: socket.socket, stays: bool):
        self._near_end, self._stays = near_end, stays
        self._is_scattered = stays  # its memory, of which much is new
        self._tell: dict[int, int] = {}  # child -> where its end is told
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler, so that the number is written:
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(near_end, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def handle(self) -> bool:
        """Wait for something to do, and do it; False once the near end is gone."""
        ready = self._selector.select(IDLE_S if self._is_scattered else None)
        if not ready:
            gather_pages()
            self._is_scattered = False
        for key, _ in ready:
            if key.fileobj is self._near_end:
                if not self._take_request():
                    return False
            else:
                os.read(self._woken, 4096)
                self._tell_of_the_dead()
        return True

    def _take_request(self) -> bool:
        asked, descriptors, _, _ = socket.recv_fds(self._near_end, len(_ASKED), 8)
        if not asked:
            return False
        request, *descriptors = descriptors
        with open(request, "rb") as file:
            file.seek(0)
            main, settings, preload = pickle.load(file)
        self._is_scattered |= _prepare(preload) >= MANY_MODULES and self._stays
        if main is not None:
            self._fork(main, settings, *descriptors)
        return True

    def _fork(self, main: Callable, settings: Any, *descriptors: int) -> None:
        *pipes, tell = descriptors
        child = os.fork()
        if child == 0:
            try:
                self._forget_all()
                os.close(tell)
                main(*map(Connection, pipes), settings)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        for descriptor in pipes:
            os.close(descriptor)
        self._tell[child] = tell
        with contextlib.suppress(OSError):
            os.write(tell, _NUMBER.pack(child))

    def _forget_all(self) -> None:
        """In a child: nothing of the server's is left open."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._near_end.close()
        for descriptor in (self._woken, self._wake, *self._tell.values()):
            os.close(descriptor)

    def _tell_of_the_dead(self) -> None:
        while self._tell:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            tell = self._tell.pop(child, None)
            if tell is not None:
                with contextlib.suppress(OSError):  # nobody wants to know any more
                    os.write(tell, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
                os.close(tell)


def _prepare(preload: Sequence[Preload]) -> int:
    """How many modules were not there before."""
    before = len(sys.modules)
    gc.disable()  # nothing of what is imported goes again: to look for it takes a seventh of the time
    for item in preload:
        with contextlib.suppress(Exception):  # a rank that needs it will say so
            importlib.import_module(item) if isinstance(item, str) else item()
    gc.enable()
    return len(sys.modules) - before
