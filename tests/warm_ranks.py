"""Ranks that take one function after another, with a new process group each time: several times as cheap as fresh ones.

A run in which any rank raised, hung or was ended leaves no rank behind; only those that all returned are used again.
Fresh ranks are what students get, and what the notebooks' own checks of the references run on.
"""

import os
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist

from grader.judging.exercise import Exercise
from utils.ranks.channel import Channel
from utils.ranks.place import Place, StartedRank
from utils.ranks.server import Preload
from utils.ranks.worker import Inbox, Settings, begin_process, run_once
from utils.trace.recorder import Recorder

IDLE_WITHIN_S = 2.0
ENOUGH = 10  # idle ranks, before a case waits for one to get ready
MOST_IDLE = 24  # of one kind: each has four open files here
MOST_KINDS = 3  # of ranks by what is forbidden in them, beside those in use: they take memory
MOST_RUNS = 200  # what a long life piles up is nobody's business here


class WarmRanks:
    """Idle ranks for one exercise after another."""

    def __init__(self):
        self._idle: dict[tuple[str, ...], list[StartedRank]] = {}

    def place_of(self, exercise: Exercise) -> Callable[[], Place]:
        """Where to try its cases. What was forbidden in a rank stays so, and it serves exercises that forbid the same."""
        idle = self._idle.pop(exercise.forbidden, [])
        if len(self._idle) == MOST_KINDS:
            _end(self._idle.pop(next(iter(self._idle))))  # those that waited longest
        self._idle[exercise.forbidden] = idle
        return partial(WarmPlace, idle)

    def end(self) -> None:
        for idle in self._idle.values():
            _end(idle)
        self._idle.clear()


class WarmPlace(Place):
    """Hands out idle ranks of `pool` before it starts new ones, and puts back those that ended well."""

    def __init__(self, pool: list[StartedRank]):
        self._pool = pool

    @staticmethod
    def main(connection: Connection, stdout: Connection, stderr: Connection, settings: Settings) -> None:
        """A rank's process."""
        begin_process(stdout, stderr)
        channel = Channel(connection)
        recorder = Recorder(channel.send, settings.machinery)
        inbox = Inbox(channel, recorder)
        for run in range(MOST_RUNS):
            if run:  # said only by one that will take another task
                channel.send("idle")
                settings = pickle.loads(inbox.blobs.get())
            run_once(channel, recorder, settings, inbox)
            dist.destroy_process_group()
            torch.set_default_dtype(torch.float32)
            recorder.begin(channel.send)
            inbox.settle.clear()
            inbox.leave.clear()
        os._exit(0)

    def start(self, settings: Settings, start_method: str, preload: Sequence[Preload] = ()) -> StartedRank:
        while (own := self._idle()) is not None:
            try:
                Channel(own.connection).send("settings", pickle.dumps(settings))
                return _lent(own)
            except OSError:  # it has lived long enough
                _end([own])
        return _lent(super().start(settings, start_method, preload))

    def _idle(self) -> StartedRank | None:
        """A rank that waits for a task; None if another is to be started.

        To leave a group takes gloo 10 ms a peer, in which a rank only waits: so there are some more than one case needs.
        """
        for wait_s in (0.0, IDLE_WITHIN_S) if len(self._pool) >= ENOUGH else (0.0,):
            for own in list(self._pool):
                stands = _becomes_idle(own, wait_s)
                if stands is not None:
                    self._pool.remove(own)
                    if stands:
                        return own
                    _end([own])
        return None

    def end(self, ranks: Sequence[StartedRank], finished: bool) -> None:
        own = [rank.process.owner for rank in ranks]
        if finished:
            self._pool += own
            own = [self._pool.pop(0) for _ in range(len(self._pool) - MOST_IDLE)]
        _end(own)


def _end(ranks: Sequence[StartedRank]) -> None:
    Place().end(ranks, finished=False)
    for rank in ranks:
        for end in (rank.connection, rank.stdout, rank.stderr):
            end.close()


def _lent(own: StartedRank) -> StartedRank:
    """The same rank with copies of the pipes' ends, which the launcher closes after its run."""
    own.process.owner = own
    ends = [Connection(os.dup(end.fileno())) for end in (own.connection, own.stdout, own.stderr)]
    return StartedRank(own.process, *ends)


def _becomes_idle(rank: StartedRank, within_s: float) -> bool | None:
    """Whether it says so; None if it said nothing yet and was not waited for. False: it is of no use any more."""
    try:
        channel = Channel(rank.connection)
        while rank.connection.poll(within_s):
            if any(message.read()[0] == "idle" for message in channel.arrivals()):
                return True
    except (OSError, EOFError, ValueError, TypeError):
        return False
    return False if within_s else None
