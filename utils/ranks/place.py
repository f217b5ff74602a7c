"""Where ranks run: how their processes begin and end, and where they meet. Another place plugs in here."""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from utils.ranks.processes import kill_session, spawned
from utils.ranks.readiness import Readiness
from utils.ranks.server import RankServer, shared_server
from utils.ranks.worker import Settings, rank_main

ProcessIds = Callable[[], dict[int, int]]  # rank -> process id, of those that have started
LEAVE_S = 2.0


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

    def start(self, settings: Settings, start_method: str, preload: Sequence[str] = ()) -> StartedRank:
        """Start one rank."""
        connection, its_connection = Pipe()
        stdout, its_stdout = Pipe(duplex=False)
        stderr, its_stderr = Pipe(duplex=False)
        pipes = (its_connection, its_stdout, its_stderr)
        if start_method == "spawn":
            process = spawned(self.main, settings, pipes)
        else:
            process = self.server().fork(self.main, settings, pipes, (*self.preload, *preload))
        for pipe in pipes:
            pipe.close()
        return StartedRank(process, connection, stdout, stderr)

    def all_met(self) -> None:
        """The ranks are about to receive their task."""

    def settled(self) -> Any:
        """All have returned, and nothing is on its way any more.  Returns what was observed meanwhile, for the Outcome."""

    def end(self, ranks: Sequence[StartedRank], finished: bool) -> None:
        """No process is left behind. finished: they were told to leave, and will."""
        patience = time.monotonic() + (LEAVE_S if finished else 0.0)
        for rank in ranks:
            rank.process.join(max(0.0, patience - time.monotonic()))
            kill_session(rank.process)
        for rank in ranks:
            rank.process.join()
            rank.process.close()

    def close(self) -> None:
        """No rank is left, or none was started."""
        if self._folder:
            self._folder.cleanup()
