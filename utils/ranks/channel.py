"""Messages between ranks and the launcher that started them, both ends: a JSON header and an optional blob of bytes.

To a rank, in the order of a run:
    task, input       the function and its input, as blobs in this order; "asked for" what it has asked for within it
    looked at         its pause is over
    stack             where is your main thread?
    settle, leave     all have returned: send the counters of your connections; now end

From a rank:
    ready             it has joined the group                              -> launcher: hands out task and input
    facts             what a call is, once for all equal calls, by an id   -> trace.reports
    call              a call of such facts begins                          -> deadlocks.waits (who stands where), trace
    wait, woke        the main thread begins and stops waiting for a call  -> the same
    waited            another thread has waited                            -> the same
    done              an asynchronous call has come                        -> the same
    withdrawn         the call raised an error, and has not begun          -> the same
    dropped           a message's Work was thrown away unwaited            -> the same
    forgotten         calls that nobody waited for, told at the end        -> deadlocks.oversights
    threads           all its threads have nothing to do, or wait          -> deadlocks.waits
    batch             several of these at once                             -> trace.reports
    span, mark        a named stretch or instant of the program's own      -> trace
    pause             it stands still until somebody has looked at it      -> launcher
    asks              it wants what "asked for" brings                     -> launcher
    memory            what it held, by category                            -> Run.memory
    stack, wire       answers to "stack" and "settle"                      -> Outcome
    returned, raised  the function's result as a blob, or its error        -> Outcome.blobs and .errors
"""

import contextlib
import json
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from utils.ranks.readiness import Readiness
from utils.trace.reports import ReportReader

_LENGTHS = struct.Struct("!QQ")  # of the header and of the blob, in bytes
_MOST_BYTES = 1 << 40
_READ_BYTES = 1 << 16  # as much as a pipe holds: room for more would be made anew for each read
_SHORT_BYTES = 1 << 13
_OF_CALLS = (b'["batch"', b'["call"')
MOST_UNREAD = 2000  # messages of all ranks that the launcher keeps before it reads them
SEND_S = 10.0  # in which a rank that still reads its messages has read some of them
_NONSENSE = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Message:
    """One message as it came: `head` is JSON that nobody has read yet, `blob` is opaque bytes."""

    head: bytes
    blob: bytes = b""

    @property
    def can_wait(self) -> bool:
        """Whether it only tells of calls, as most do, and nobody has to answer."""
        short = not self.blob and len(self.head) < _SHORT_BYTES
        return short and self.head.startswith(_OF_CALLS) and b'["pause"' not in self.head

    def read(self) -> tuple[str, dict[str, Any]]:
        """(what it is, plain data). Raises: ValueError or TypeError for what is no message."""
        kind, fields = json.loads(self.head)
        return kind, fields


class Channel:
    """Two-way messages over one connection; safe to send from several threads.

    Nothing is unpickled here: whoever asked for a blob decides how to read it.
    """

    def __init__(self, connection: Connection):
        self.connection = connection
        self._lock = threading.Lock()
        self._unread = bytearray()

    def send(self, kind: str, blob: bytes = b"", **fields: Any) -> None:
        """Send one message. Raises: OSError once the other end is gone."""
        head = _as_json(kind, fields).encode()
        data = _LENGTHS.pack(len(head), len(blob)) + head + blob
        with self._lock:
            sent = os.write(self.connection.fileno(), data)
            while sent < len(data):
                sent += os.write(self.connection.fileno(), memoryview(data)[sent:])

    @property
    def has_partial_message(self) -> bool:
        """Whether a message has come in part that is larger than what the pipe holds."""
        return len(self._unread) >= _READ_BYTES

    def arrivals(self) -> Iterator[Message]:
        """What has arrived whole, after one read; call it when there is something to read, and it never waits.

        A rank may send half a message and no more, by accident or to stop us: the launcher must go on all the same.
        Raises: EOFError or OSError once the other end is gone, ValueError for bytes that are no messages.
        """
        chunk = os.read(self.connection.fileno(), _READ_BYTES)
        if not chunk:
            raise EOFError
        self._unread += chunk
        while message := self._next():
            yield message
            del message  # its blob belongs to whoever took it

    def _next(self) -> Message | None:
        if len(self._unread) < _LENGTHS.size:
            return None
        head_bytes, blob_bytes = _LENGTHS.unpack_from(self._unread)
        if max(head_bytes, blob_bytes) > _MOST_BYTES:
            raise ValueError("a message that long is none")
        head_end = _LENGTHS.size + head_bytes
        if len(self._unread) < head_end + blob_bytes:
            return None
        head = bytes(self._unread[_LENGTHS.size:head_end])
        blob = bytes(memoryview(self._unread)[head_end:head_end + blob_bytes])
        del self._unread[:head_end + blob_bytes]
        return Message(head, blob)


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
        """Listen to this rank from now on: while `Watch.listen` waits, `Readiness` calls `take` when something has come."""
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


def give_up_sending_after(seconds: float, connection: Connection) -> None:
    """Sending raises an OSError where the other end reads nothing for so long: who stands still must not stop us."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(seconds), 0))


def _as_json(kind: str, fields: dict[str, Any]) -> str:
    """What a loop of calls says again and again is put together here: json makes itself ready anew each time."""
    if kind == "call":
        return f'["call", {{"number": {fields["number"]}, "time": {fields["time"]!r}, "facts": {fields["facts"]}}}]'
    if kind == "woke" and "sender" not in fields:
        return f'["woke", {{"number": {fields["number"]}, "time": {fields["time"]!r}}}]'
    if kind == "batch":
        return f'["batch", {{"items": [{", ".join([_as_json(*item) for item in fields["items"]])}]}}]'
    return json.dumps([kind, fields], default=msgspec.to_builtins)
