"""A place for ranks that are marked: in namespaces of their own, weighed, with a witness of what crosses the network."""

from multiprocessing.connection import Connection
from typing import Any

import torch.distributed as dist

from grader.evidence.evidence import Weight
from grader.evidence.traffic import Observed
from grader.sandbox.holders import connection_holders, loopback_bytes
from grader.sandbox.isolation import isolate
from grader.sandbox.streams import End
from grader.sandbox.weighing import weight_of
from grader.sandbox.witness import Witness
from utils.ranks.place import Place, ProcessIds
from utils.ranks.readiness import Readiness
from utils.ranks.server import RankServer
from utils.ranks.worker import Settings, rank_main

MOST_WEIGHTS = 1000


def isolated_main(connection: Connection, stdout: Connection, stderr: Connection, settings: Settings) -> None:
    """A rank's process, shut off before anything else happens in it."""
    isolate()
    rank_main(connection, stdout, stderr, settings)


class IsolatedPlace(Place):
    """Ranks share no files, so they meet at a port.

    witness: None where it may not listen; the network is then only counted.
    """

    main = staticmethod(isolated_main)
    preload = ("grader.sandbox.apart",)  # from then on the server's children begin process namespaces of their own
    _store: dist.TCPStore | None = None

    def __init__(self, server: RankServer, witness: Witness | None):
        self._server, self._witness = server, witness
        self._weights: list[Weight] | None = []  # None where nobody can weigh

    def server(self) -> RankServer:
        return self._server

    def surroundings(self) -> None:
        """They have what their server had, before anything came in that ranks must not see."""

    def open(self, readiness: Readiness, processes: ProcessIds) -> int:
        self._processes = processes
        if self._witness:
            self._witness.begin()
            readiness.watch(self._witness, lambda: self._witness.look(self._holders))
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        if self._witness:
            self._witness.expect_store(self._store.port)
        return self._store.port

    def all_met(self) -> None:
        if self._witness:
            self._witness.note_start(self._holders, len(self._processes()))
        if weight_of(next(iter(self._processes().values()))) is None:  # one for all: it takes a while
            self._weights = None
        self._bytes_before = loopback_bytes()

    def look_at(self, rank: int, name: str, facts: dict[str, Any]) -> None:
        if self._witness:
            self._witness.look(self._holders)  # weighing takes a while, and other ranks go on sending
        if self._weights is None or len(self._weights) >= MOST_WEIGHTS:
            return
        weight = weight_of(self._processes()[rank])
        if weight is not None:
            self._weights.append(Weight(rank, name, weight, int(facts["held"])))

    def settled(self) -> tuple[int, Observed | None, list[Weight] | None]:
        """(all that crossed the loopback, headers included; what the witness saw; what ranks weighed)"""
        crossed = loopback_bytes() - self._bytes_before
        return crossed, self._witness.testify(self._holders) if self._witness else None, self._weights

    def close(self) -> None:
        self._store = None

    def _holders(self) -> dict[tuple[End, End], int]:
        return connection_holders(self._processes())
