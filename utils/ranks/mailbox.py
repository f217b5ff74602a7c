"""What ranks say, read in the order in which it came, and what they are told, at once or later."""

import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

from utils.ranks.channel import Channel, Message, give_up_sending_after
from utils.ranks.readiness import Readiness
from utils.trace.reports import ReportReader

MOST_UNREAD = 2000
SEND_S = 10.0  # in which a rank that still reads its messages has read some of them
_NONSENSE = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


class Mailbox:
    """One channel for each rank.

    on_report(rank, kind, fields, blob) is called for each report, on_nonsense(rank, error) once for a rank that sends what
    is none, and which is not listened to any more. arrived: messages so far. gathered: most of one rank in one look.
    """

    def __init__(self, readiness: Readiness, on_report: Callable[[int, str, dict, bytes], None],
                 on_nonsense: Callable[[int, Exception], None]):
        self._readiness, self._on_report, self._on_nonsense = readiness, on_report, on_nonsense
        self.channels: dict[int, Channel] = {}
        self.arrived = self.gathered = 0
        self._readers: dict[int, ReportReader] = {}
        self._unread: deque[tuple[int, Message]] = deque()  # (rank, what it says of its calls)
        self._unreadable: set[int] = set()
        self._later: list[tuple[float, float, int, str, bytes]] = []  # (when; since; rank; what to tell)

    def open(self, rank: int, connection: Connection) -> None:
        """Listen to this rank from now on."""
        self.channels[rank], self._readers[rank] = Channel(connection), ReportReader()
        give_up_sending_after(SEND_S, connection)
        self._readiness.watch(connection, partial(self.take, rank))

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    @property
    def has_partial_message(self) -> bool:
        """Whether a large result is on its way, and a rank waits for room in its pipe."""
        return any(channel.has_partial_message for channel in self.channels.values())

    def take(self, rank: int) -> bool:
        """What has come from this rank; False at the end of its messages."""
        try:
            for gathered, message in enumerate(self.channels[rank].arrivals()):
                self.arrived, self.gathered = self.arrived + 1, max(gathered, self.gathered)
                self._unread.append((rank, message))
                if not message.can_wait or len(self._unread) > MOST_UNREAD:
                    self.read()
        except (EOFError, OSError):
            self._readiness.forget(self.channels[rank].connection)
            return False
        except ValueError as error:
            self.read()  # what came before made sense
            self._give_up(rank, error)
        return rank not in self._unreadable

    def read(self) -> None:
        """Not as each arrives: between two calls of a rank there is time for little, and many in a row are read faster."""
        while self._unread:
            rank, message = self._unread.popleft()
            if rank not in self._unreadable:
                try:
                    for kind, fields in self._readers[rank].unpacked(*message.read()):
                        self._on_report(rank, kind, fields, message.blob)
                except _NONSENSE as error:
                    self._give_up(rank, error)

    def take_the_rest(self, rank: int) -> None:
        """Of a rank that has ended."""
        while self.channels[rank].connection.poll(0) and self.take(rank):
            pass
        self.read()

    def _give_up(self, rank: int, error: Exception) -> None:
        self._unreadable.add(rank)
        self._readiness.forget(self.channels[rank].connection)
        self._on_nonsense(rank, error)

    # ── to the ranks ──

    def tell(self, rank: int, kind: str, blob: bytes = b"") -> None:
        """If it is still there."""
        with contextlib.suppress(OSError, ValueError):
            self.channels[rank].send(kind, blob)

    def tell_all(self, kind: str) -> None:
        for rank in self.channels:
            self.tell(rank, kind)

    def tell_at(self, when: float, since: float, rank: int, kind: str, blob: bytes = b"") -> None:
        """It is `due` from then on. since: whatever is to be known of it then."""
        self._later.append((when, since, rank, kind, blob))

    def due(self, now: float) -> list[tuple[float, int, str, bytes]]:
        """(since, rank, kind, blob) of what is now to be told; once."""
        due = [one for one in self._later if one[0] <= now]
        self._later = [one for one in self._later if one[0] > now]
        return [one[1:] for one in due]

    def next_due(self, deadline: float) -> float:
        """When somebody is to be told something, at the latest `deadline`."""
        return min([deadline, *(when for when, *_ in self._later)])

    def close(self) -> None:
        for channel in self.channels.values():
            channel.connection.close()
