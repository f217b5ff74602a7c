"""Listens to ranks in a rhythm that leaves them the processors, and believes a standstill once it has lasted."""

import time
from collections.abc import Callable

from utils.deadlocks.waits import WaitState
from utils.ranks.channel import Mailbox
from utils.ranks.readiness import Readiness

SETTLE_S = 0.25  # a standstill must last this long without any report before it is believed
LONG_SETTLE_S = 3.0  # the same, where a rank that stands still has other threads
SHORT_BATCH_S, BATCH_S = 0.002, 0.04  # how long reports gather: at a run's beginning, and at most
GROWTH = 0.05  # from the one to the other, by each second of the run: a short one is not to wait, a long one not disturbed
QUIET_S, PATIENCE_S = 0.02, 0.1  # how long to wait for something, with reports that nobody has read yet, and without
LATEST_S = 0.5  # what ranks say of their calls is read when they are quiet, or so often
MOST_GATHERED = 100  # reports of a rank: it stands still once the pipe is full, at some 250
ROUNDS = 50
REFILL_S = 0.005  # in which a rank that found its pipe full writes on


class Watch:
    """Of one run. state: where all ranks stand."""

    def __init__(self, readiness: Readiness, mailbox: Mailbox, state: WaitState):
        self._readiness, self._mailbox, self._state = readiness, mailbox, state
        self._still_since: float | None = None
        self._arrived = 0  # messages at the last look for a standstill
        self._read_at = 0.0

    def listen(self, now: float, age_s: float, until: float) -> bool:
        """Whether it is time to look at where the ranks stand: they are quiet, or it is long ago.

        now, until: by the run's clock; age_s: of the run.
        """
        gathered, self._mailbox.gathered = self._mailbox.gathered, 0
        batch_s = SHORT_BATCH_S if gathered > MOST_GATHERED else min(BATCH_S, SHORT_BATCH_S + GROWTH * age_s)
        patience_s = min(QUIET_S if self._mailbox.has_unread else PATIENCE_S, max(0.0, until - now))
        if self._hear(patience_s, batch_s) and now <= self._read_at + LATEST_S:
            return False
        self._read_at = now
        self._mailbox.read()
        return True

    def listen_for(self, seconds: float, done: Callable[[], bool] = lambda: False) -> None:
        """Until then, or until that is so."""
        patience = time.monotonic() + seconds
        while not done() and (left := patience - time.monotonic()) > 0:
            self._hear(left, SHORT_BATCH_S)
        self._mailbox.read()

    def _hear(self, timeout_s: float, batch_s: float) -> bool:
        """Whether there was anything to hear within `timeout_s`."""
        if not self._mailbox.has_partial_message:
            time.sleep(batch_s)  # let reports gather: waking up for each would take the ranks' time on a small machine
        if not self._readiness.handle(timeout_s):
            return False
        for _ in range(ROUNDS):  # not for ever: a flood must not hide the deadline
            if not self._readiness.handle(REFILL_S if self._mailbox.has_partial_message else 0.0):
                break
        return True

    def standstill(self, unfinished: list[int], after_an_error: bool) -> frozenset[int]:
        """Ranks that can never go on, once that has lasted, with nothing more to read; none before.

        after_an_error: the others may finish, so that every rank's error is collected; so only if nobody moves.
        """
        stuck = self._state.stuck()
        if not stuck:
            self._still_since = None
        elif self._still_since is None or self._mailbox.arrived != self._arrived:
            self._still_since = time.monotonic()
        elif time.monotonic() - self._still_since > (SETTLE_S if self._are_alone(stuck) else LONG_SETTLE_S):
            self._readiness.handle(0.0)
            if self._mailbox.arrived == self._arrived and (stuck.issuperset(unfinished) or not after_an_error):
                return stuck
        self._arrived = self._mailbox.arrived
        return frozenset()

    def _are_alone(self, ranks: frozenset[int]) -> bool:
        return all(self._state.ranks[rank].alone for rank in ranks)
