"""What ranks print: whole lines, marked with the rank, live; a flood is cut."""

import contextlib
import os
import sys
from collections import deque
from multiprocessing.connection import Connection

MAX_LINES_SHOWN = 1_000
MAX_LINE_LENGTH = 4_000
LINES_KEPT = 1_000
CHUNK_BYTES = 1 << 16


class RankOutput:
    """One rank's standard output or error, read from a pipe."""

    def __init__(self, rank: int, pipe: Connection, is_error: bool, muted: bool = False):
        self.rank, self.pipe, self.is_error, self.muted = rank, pipe, is_error, muted
        self.kept: deque[str] = deque(maxlen=LINES_KEPT)
        self._partial = b""
        self._shown = 0

    def read(self) -> bool:
        """Take what is there, show whole lines; False at the end of the pipe."""
        try:
            data = os.read(self.pipe.fileno(), CHUNK_BYTES)
        except OSError:
            data = b""
        *lines, self._partial = (self._partial + data).split(b"\n")
        if not data and self._partial:
            lines, self._partial = [self._partial], b""
        self._partial = self._partial[:MAX_LINE_LENGTH]  # of an endless line, only the beginning is kept
        for line in lines:
            self._show(line)
        return bool(data)

    def finish(self) -> None:
        """Read what is left without waiting for whoever still holds the other end."""
        with contextlib.suppress(OSError):
            while self.pipe.poll(0) and self.read():
                pass
        if self._partial:
            self._show(self._partial)
            self._partial = b""
        self.pipe.close()

    def _show(self, raw: bytes) -> None:
        text = raw[:MAX_LINE_LENGTH].decode("utf-8", "replace").rstrip("\r")
        self.kept.append(text)
        self._shown += 1
        if self._shown <= MAX_LINES_SHOWN:
            self._write(text)
        elif self._shown == MAX_LINES_SHOWN + 1:
            self._write(f"… more than {MAX_LINES_SHOWN} lines: the rest is not shown (the last ones are in run.output)")

    def _write(self, text: str) -> None:
        if self.muted:
            return
        print(f"[rank {self.rank}] {text}", file=sys.stderr if self.is_error else sys.stdout, flush=True)
