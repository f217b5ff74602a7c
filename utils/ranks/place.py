"""Where ranks run: how their processes begin and end, and where they meet. Another place plugs in here."""

import os
import signal
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe, Process, get_context
from multiprocessing.connection import Connection
from typing import Any

from utils.ranks.fresh_process import Surroundings
from utils.ranks.readiness import Readiness
from utils.ranks.server import START_METHODS, Preload, RankServer, shared_server
from utils.ranks.sessions import end_sessions
from utils.ranks.worker import Settings, rank_main

ProcessIds = Callable[[], dict[int, int]]  # rank -> process id, of those that have started
LEAVE_S = 2.0
_main_is_away = threading.Lock()


@dataclass
class StartedRank:
    """A rank's process and our ends of its pipes."""

    process: Any  # a ForkedProcess, or one of multiprocessing
    connection: Connection
    stdout: Connection
    stderr: Connection


class Place:
    """This machine: ranks are forked from a warm server and meet through a file. Made anew for each run."""

    main: Callable = staticmethod(rank_main)  # what a rank's process calls with its three pipes and its settings
    preload: tuple[str, ...] = ()  # what the server must have imported before it forks
    _folder: tempfile.TemporaryDirectory | None = None

    def server(self) -> RankServer:
        """Whom the ranks are forked from."""
        return shared_server()

    def open(self, readiness: Readiness, processes: ProcessIds) -> str | int:
        """Before the first rank starts.  Returns where they meet: a file, or a port of the loopback."""
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-", ignore_cleanup_errors=True)
        return os.path.join(self._folder.name, "store")

    def start(self, settings: Settings, start_method: str, preload: Sequence[Preload] = ()) -> StartedRank:
        """Start one rank."""
        connection, its_connection = Pipe()
        stdout, its_stdout = Pipe(duplex=False)
        stderr, its_stderr = Pipe(duplex=False)
        with its_connection, its_stdout, its_stderr:
            pipes = (its_connection, its_stdout, its_stderr)
            if start_method == "spawn":
                process = _spawned(self.main, settings, pipes)
            else:
                process = self.server().fork(self.main, settings, pipes, (*self.preload, *preload))
        return StartedRank(process, connection, stdout, stderr)

    def surroundings(self) -> Surroundings | None:
        """What ranks take over from this process; None where they have what their server had."""
        return Surroundings.here()

    def all_met(self) -> None:
        """The ranks are about to receive their task."""

    def look_at(self, rank: int, name: str, facts: dict[str, Any]) -> None:
        """A rank stands still at an instant of this name (utils.trace.spans.pause), and tells these facts."""

    def settled(self) -> Any:
        """All have returned, and nothing is on its way any more.  Returns what was observed meanwhile, for the Outcome."""

    def end(self, ranks: Sequence[StartedRank], finished: bool) -> None:
        """No process is left behind, nor what they started. finished: they were told to leave, and will."""
        patience = time.monotonic() + (LEAVE_S if finished else 0.0)
        for rank in ranks:
            rank.process.join(max(0.0, patience - time.monotonic()))
            rank.process.kill()
        for rank in ranks:
            rank.process.join()
        if ranks:
            end_sessions({rank.process.pid for rank in ranks})
        for rank in ranks:
            rank.process.close()

    def close(self) -> None:
        """No rank is left, or none was started."""
        if self._folder:
            self._folder.cleanup()


# ── processes ──


def start_process(main: Callable, settings: Any, pipes: Sequence[Connection], preload: Sequence[Preload] = ()) -> Any:
    """A process that calls main(*pipes, settings), begun as is usual on this system."""
    if START_METHODS[0] == "spawn":
        return _spawned(main, settings, pipes)
    return shared_server().fork(main, settings, pipes, preload)


def _spawned(main: Callable, settings: Any, pipes: Sequence[Connection]) -> Process:
    """A new interpreter that calls main(*pipes, settings): slow, and all that there is where nothing can be forked."""
    process = get_context("spawn").Process(target=main, args=(*pipes, settings), daemon=True)
    with _main_is_away:
        callers = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")  # it need not import the caller's: all is in the task
        try:
            process.start()
        finally:
            sys.modules["__main__"] = callers
    return process


CRASHED = " (a crash in compiled code)"


def exit_in_words(code: int | None) -> str:
    """Why a process is gone."""
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        extra = {"SIGKILL": " (out of memory?)", "SIGSEGV": CRASHED, "SIGABRT": CRASHED, "SIGBUS": CRASHED}.get(name, "")
        return f"its process was ended by {name}{extra}"
    return f"its process left with exit code {code} before the function returned"
