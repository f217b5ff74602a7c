"""Ranks that take one function after another, with a new process group each time: several times as cheap as fresh ones.

A run in which any rank raised, hung or was ended leaves no rank behind; only those that all returned are used again.
Fresh ranks are what students get, and what the references are tried on.
"""

import os
import pickle
import random
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection

import numpy as np
import torch
import torch.distributed as dist

from utils.ranks.channel import Channel
from utils.ranks.place import Place, StartedRank
from utils.ranks.worker import Inbox, Settings, begin_process, run_once
from utils.trace.recorder import Recorder

IDLE_WITHIN_S = 2.0
MOST_RUNS = 200  # what a long life piles up is nobody's business here


class WarmPlace(Place):
    """Hands out idle ranks of `pool` before it starts new ones, and puts back those that ended well."""

    def __init__(self, pool: list[StartedRank]):
        self._pool = pool

    @staticmethod
    def main(connection: Connection, stdout: Connection, stderr: Connection, settings: Settings) -> None:
        """A rank's process."""
        begin_process(stdout, stderr)
        channel = Channel(connection)
        recorder = _Recorder(channel.send, settings.machinery)
        inbox, state = Inbox(channel, recorder), _random_state()
        for run in range(MOST_RUNS):
            if run:  # said only by one that will take another task
                channel.send("idle")
                settings = pickle.loads(inbox.blobs.get())
            run_once(channel, recorder, settings, inbox)
            dist.destroy_process_group()
            torch.set_default_dtype(torch.float32)
            _restore(state)
            recorder.forget()
            inbox.settle.clear()
            inbox.leave.clear()
        os._exit(0)

    def start(self, settings: Settings, start_method: str, preload: Sequence[str] = ()) -> StartedRank:
        while self._pool:
            idle = self._pool.pop(0)  # who has had the longest time to get ready
            try:
                if _becomes_idle(idle):
                    Channel(idle.connection).send("settings", pickle.dumps(settings))
                    return _lent(idle)
            except OSError:  # it has lived long enough
                pass
            super().end([idle], finished=False)
        return _lent(super().start(settings, start_method, preload))

    def end(self, ranks: Sequence[StartedRank], finished: bool) -> None:
        own = [rank.process.owner for rank in ranks]
        if finished:
            self._pool += own
        else:
            super().end(own, finished=False)


class _Recorder(Recorder):
    """Installed once in the life of a process."""

    _installed = False

    def install(self) -> None:
        if self._installed:  # a rank with more threads than at its start is not believed to stand still
            self._threads_at_start = threading.active_count()
        else:
            super().install()
        self._installed = True

    def forget(self) -> None:
        """Begin anew, as for the first run."""
        self.__init__(self._send, self.machinery)


def _lent(own: StartedRank) -> StartedRank:
    """The same rank with copies of the pipes' ends, which the launcher closes after its run."""
    own.process.owner = own
    ends = [Connection(os.dup(end.fileno())) for end in (own.connection, own.stdout, own.stderr)]
    return StartedRank(own.process, *ends)


def _becomes_idle(rank: StartedRank) -> bool:
    try:
        channel = Channel(rank.connection)
        while rank.connection.poll(IDLE_WITHIN_S):
            if any(message.kind == "idle" for message in channel.arrivals()):
                return True
    except (OSError, EOFError, ValueError):
        pass
    return False


def _random_state() -> tuple:
    return torch.get_rng_state(), random.getstate(), np.random.get_state()


def _restore(state: tuple) -> None:
    torch.set_rng_state(state[0])
    random.setstate(state[1])
    np.random.set_state(state[2])
