"""Messages between a rank and the process that started it: a JSON header and an optional blob of bytes."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

HEADER_LENGTH_BYTES = 4


@dataclass(frozen=True)
class Message:
    """One message. `kind` says what it is, `fields` is plain JSON data, `blob` is opaque bytes."""

    kind: str
    fields: dict[str, Any]
    blob: bytes = b""


class Channel:
    """Two-way messages over one connection; safe to send from several threads.

    Nothing is unpickled here: whoever asked for a blob decides how to read it.
    """

    def __init__(self, connection: Connection):
        self.connection = connection
        self._lock = threading.Lock()

    def send(self, kind: str, blob: bytes = b"", **fields: Any) -> None:
        """Send one message. Raises: OSError once the other end is gone."""
        head = json.dumps([kind, fields]).encode()
        with self._lock:
            self.connection.send_bytes(len(head).to_bytes(HEADER_LENGTH_BYTES, "little") + head + blob)

    def receive(self) -> Message:
        """Wait for the next message. Raises: EOFError or OSError once the other end is gone."""
        data = self.connection.recv_bytes()
        end = HEADER_LENGTH_BYTES + int.from_bytes(data[:HEADER_LENGTH_BYTES], "little")
        kind, fields = json.loads(data[HEADER_LENGTH_BYTES:end])
        return Message(kind, fields, data[end:])
