"""Messages between a rank and the process that started it: a JSON header and an optional blob of bytes.

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
    returned, raised  the function's result as a blob, or its error        -> Run.results, RankFailed
"""

import json
import os
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import msgspec

_LENGTHS = struct.Struct("!QQ")  # of the header and of the blob, in bytes
_MOST_BYTES = 1 << 40
_READ_BYTES = 1 << 16  # as much as a pipe holds: room for more would be made anew for each read
_SHORT_BYTES = 1 << 13
_OF_CALLS = (b'["batch"', b'["call"')


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
