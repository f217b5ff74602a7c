"""A clock that a busy machine slows down: time in which processes waited for a processor that others used does not count."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable

LOOK_EVERY_S = 0.5
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class FairClock:
    """Seconds as some processes had them. Where the system does not tell how long they waited (it is Linux's), real seconds.

    Of several processes the one that waited longest counts. Where they kept each other waiting, the clock goes on: what they
    used themselves is held against what the machine has.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]):
        self._processes = processes
        self._looked_at = time.monotonic()
        self._waited: dict[int, float] = {}
        self._used: dict[int, float] = {}
        self.starved_s = 0.0

    def now(self) -> float:
        """Seconds, from any beginning; never less than before."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._look(now - self._looked_at)
            self._looked_at = now
        return now - self.starved_s

    def _look(self, passed_s: float) -> None:
        processes = list(self._processes())
        waited, used = ({pid: seconds for pid in processes if (seconds := read(pid)) is not None}
                        for read in (_waited_s, _used_s))
        waits = [seconds - self._waited.get(pid, seconds) for pid, seconds in waited.items()]
        own_share = sum(seconds - self._used.get(pid, seconds) for pid, seconds in used.items()) / (processors() * passed_s)
        others_share = min(1.0, max(0.0, 1.0 - own_share))
        self._waited, self._used = waited, used
        self.starved_s += min(passed_s, max([0.0, *waits]) * others_share)


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _waited_s(pid: int) -> float | None:
    """How long a process (its main thread) was ready to run and did not."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[1]) * 1e-9
    return None


def _used_s(pid: int) -> float | None:
    """Processor time of all its threads."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
    return None
