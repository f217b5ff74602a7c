"""Where ranks run: how their processes begin and where they meet. Another place plugs in here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from utils.ranks.processes import context_for
from utils.ranks.readiness import Readiness

Processes = Callable[[], dict[int, int]]  # rank -> process id, of those that have started


def nothing_more() -> None:
    """What a rank of this machine does before all else."""


class Place:
    """This machine: ranks are forked from a warm server and meet through a file. Made anew for each run.

    enter: called first in each rank's process; a function of a module, so that it can be sent there.
    """

    enter: Callable[[], None] = staticmethod(nothing_more)
    _folder: tempfile.TemporaryDirectory | None = None

    def context(self, start_method: str):
        """The multiprocessing context that starts the ranks."""
        return context_for(start_method)

    def open(self, readiness: Readiness, processes: Processes) -> str | int:
        """Before the first rank starts.  Returns where they meet: a file, or a port of the loopback."""
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-", ignore_cleanup_errors=True)
        return os.path.join(self._folder.name, "store")

    def all_met(self) -> None:
        """The ranks are about to receive their task."""

    def settled(self) -> Any:
        """All have returned, and nothing is on its way any more.  Returns what was observed meanwhile, for the Outcome."""

    def close(self) -> None:
        """No rank is left, or none was started."""
        if self._folder:
            self._folder.cleanup()
