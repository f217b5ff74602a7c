"""Across machines: every rank sends its reports to rank 0's process, where a thread sees who can never go on.

What it saw then is written to a file, in words that `explain` turns into the same errors as on one machine; rank 0 ends, and
with it the job. Nothing that comes is unpickled, and only who knows the rendezvous store's token is listened to.
"""

import json
import os
import secrets
import socket
import sys
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import torch.distributed as dist

from utils.deadlocks.waits import ENDED, WaitState
from utils.ranks.channel import Mailbox
from utils.ranks.job import Outcome
from utils.ranks.launcher import GATHER_S, GRACE_AFTER_ERROR_S
from utils.ranks.readiness import Readiness
from utils.ranks.run import explain
from utils.ranks.watch import Watch
from utils.trace.reports import as_reported

FILE = "stands.json"
PLACE = "utils.ranks.oversight"  # in the store: "port token"; the address is the store's
TRIED, FAILED = f"{PLACE} tried", f"{PLACE} failed"  # how many ranks have tried to connect, how many could not
CONNECT_S = 60.0
TOKEN_BYTES = 32
LOOK_S = 0.5
_NO_ANSWER = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}  # a machine that is gone says nothing: 10 s


class Oversight:
    """Of one job, in rank 0's process. folder: where it writes what it saw, if the job doesn't end well."""

    def __init__(self, world_size: int, folder: Path, store: dist.Store):
        self.outcome, self._file = Outcome(WaitState(world_size)), folder / FILE
        self._file.unlink(missing_ok=True)
        self._readiness = Readiness()
        self._mailbox = Mailbox(self._readiness, self._on_report, self._note_nonsense)
        self._watch = Watch(self._readiness, self._mailbox, self.outcome.state)
        self._first_error_at: float | None = None
        self._heard_at = time.monotonic()
        self._unknown = set(range(world_size))
        self._token = secrets.token_hex(TOKEN_BYTES // 2)
        self._stopped = False
        dual = {"family": socket.AF_INET6, "dualstack_ipv6": True} if socket.has_dualstack_ipv6() else {}
        self._server = socket.create_server(("", 0), **dual)  # who reaches the store reaches this machine by that name
        self._readiness.watch(self._server, self._accept)
        store.set(PLACE, f"{self._server.getsockname()[1]} {self._token}")
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Not all ranks can be heard."""
        self._stopped = True

    def wait(self) -> None:
        """Until all ranks have ended. Where they never will, this process ends here."""
        self._thread.join()

    def _accept(self) -> None:
        """One connection: first the token, then the rank's number, then reports."""
        end, _ = self._server.accept()
        end.settimeout(CONNECT_S)
        try:
            said = _exactly(end, TOKEN_BYTES + 8)
            rank = int(said[TOKEN_BYTES:])
            if not secrets.compare_digest(said[:TOKEN_BYTES].encode(), self._token.encode()) or rank not in self._unknown:
                raise ValueError("no rank of this job")
        except (OSError, ValueError):
            end.close()
            return
        self._unknown.discard(rank)
        connection = _kept_alive(end)
        self._mailbox.open(rank, connection)
        self._readiness.forget(connection)
        self._readiness.watch(connection, partial(self._take, rank))

    def _take(self, rank: int) -> None:
        if not self._mailbox.take(rank):
            self._mailbox.read()
            if self.outcome.state.ranks[rank].state != ENDED:
                self._note_death(rank, "its process or its machine ended, or the network to it")

    def _follow(self) -> None:
        began = time.monotonic()
        while self._unfinished() and not self._stopped:
            now = time.monotonic()
            if self._first_error_at and now > self._first_error_at + GRACE_AFTER_ERROR_S:
                break
            if self._watch.listen(now, now - began, now + LOOK_S):
                self.outcome.stuck = self._watch.standstill(self._unfinished(), bool(self.outcome.errors))
            if self.outcome.stuck or self.outcome.state.disagreement:
                break
        if self.outcome.state.disagreement:
            self._watch.listen_for(GATHER_S)
        if not self._stopped and (self._unfinished() or self.outcome.errors):
            self._end()
        self._mailbox.tell_all("leave")

    def _unfinished(self) -> list[int]:
        return [rank for rank, stands in enumerate(self.outcome.state.ranks) if stands.state != ENDED]

    def _end(self) -> None:
        """Write what was seen, say it, and end this process: torchrun ends the others."""
        outcome = self.outcome
        facts = {"world_size": len(outcome.state.ranks), "stuck": sorted(outcome.stuck), "errors": outcome.errors,
                 "events": outcome.events, "verdict_s": time.monotonic() - self._heard_at}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(facts, default=msgspec.to_builtins))
        print(explain(outcome, 0.0), file=sys.stderr, flush=True)
        os._exit(1)

    def _on_report(self, rank: int, kind: str, fields: dict, blob: bytes) -> None:
        self._heard_at = time.monotonic()
        if kind == "pause":
            self._mailbox.tell(rank, "looked at")
        elif kind not in ("memory", "ready", "asks", "stack", "wire"):
            self.outcome.state.ingest(rank, kind, fields)
            self.outcome.events.append((rank, kind, fields))
        if kind == "raised":
            self._note_error(rank, fields)

    def _note_error(self, rank: int, facts: dict) -> None:
        self.outcome.errors.append((rank, facts))
        self._first_error_at = self._first_error_at or time.monotonic()

    def _note_nonsense(self, rank: int, error: Exception) -> None:
        self._note_death(rank, f"it sent a report that makes no sense ({error!r:.200})")

    def _note_death(self, rank: int, message: str) -> None:
        self.outcome.state.ingest(rank, "died", {})
        self._note_error(rank, {"type": "died", "message": message, "frames": [], "notes": []})


def connected(rank: int, world_size: int, store: dist.Store) -> Connection | None:
    """A rank's connection to the oversight of its job; None on all ranks if one can't reach it."""
    port, token = store.get(PLACE).decode().split()
    connection = None
    try:
        end = socket.create_connection((os.environ["MASTER_ADDR"], int(port)), CONNECT_S)
        end.sendall(f"{token}{rank:8}".encode())
        connection = _kept_alive(end)
    except OSError as error:
        print(f"Rank {rank} can't reach port {port} of {os.environ['MASTER_ADDR']} ({error}): nobody sees whether this job "
              "stands still.", file=sys.stderr, flush=True)
        store.add(FAILED, 1)
    store.add(TRIED, 1)
    while store.add(TRIED, 0) < world_size:
        time.sleep(LOOK_S / 5)
    return connection if store.add(FAILED, 0) == 0 else None


def _kept_alive(end: socket.socket) -> Connection:
    """A connection that ends, too, where the other machine or the network to it is gone."""
    end.settimeout(None)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _NO_ANSWER.items():
        if hasattr(socket, option):
            end.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return Connection(end.detach())


def outcome_in(folder: Path) -> Outcome | None:
    """What an oversight wrote of a job that did not end well; None if it wrote nothing."""
    file = folder / FILE
    if not file.is_file():
        return None
    facts = json.loads(file.read_text())
    outcome = Outcome(WaitState(facts["world_size"]), stuck=frozenset(facts["stuck"]), verdict_s=facts["verdict_s"])
    outcome.errors += [(rank, error) for rank, error in facts["errors"]]
    for rank, kind, fields in facts["events"]:
        fields = as_reported(kind, fields)
        outcome.state.ingest(rank, kind, fields)
        outcome.events.append((rank, kind, fields))
    for rank, error in outcome.errors:
        if error["type"] == "died":
            outcome.state.ingest(rank, "died", {})
    return outcome


def _exactly(end: socket.socket, count: int) -> str:
    said = b""
    while len(said) < count:
        part = end.recv(count - len(said))
        if not part:
            raise ValueError("it ended before it said who it is")
        said += part
    return said.decode()
