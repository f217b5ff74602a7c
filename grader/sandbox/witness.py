"""A witness outside the ranks: reads all that crosses the loopback (Linux, CAP_NET_RAW) and understands gloo's messages.

Packets come from a ring that the kernel fills (packet(7), PACKET_RX_RING); their payload is counted and never kept.
"""

import mmap
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping

from grader.evidence.traffic import NOT_TCP, Flow, Observed
from grader.sandbox.streams import Connection, End, Segment, most_ahead, opens, summed

BLOCKS = 256
SMALL_BYTES, LARGE_BYTES = 1 << 17, 1 << 20  # of a block: the kernel clears them all, 256 MiB in half a second
RETIRE_MS = 3  # a block that is not full is handed over after this long
MARKER_BYTES, MARKER_PATIENCE_S = 60_000, 2.0
_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _IGNORE_OUTGOING, _TPACKET_V3 = 263, 5, 6, 10, 23, 2
_ETH_P_ALL, _FOR_USER = 3, 1
_TCP, _ICMP, _ICMP6, _DNS_PORT = 6, 1, 58, 53
_LOCALHOST = bytes([127, 0, 0, 1])
Holders = Callable[[], Mapping[tuple[End, End], int]]  # (own end, other end) of each open connection -> rank


class PacketRing:
    """Every packet that arrives on the loopback, once, in order.  Raises: OSError where that may not be read."""

    def __init__(self, block_bytes: int):
        self._block_bytes = block_bytes
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)  # protocol 0: nothing until bound
        try:
            self._socket.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V3)
            self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)  # the loopback shows each packet twice
            self._socket.setsockopt(_SOL_PACKET, _RX_RING, struct.pack(
                "=7I", block_bytes, BLOCKS, 1 << 16, BLOCKS * (block_bytes >> 16), RETIRE_MS, 0, 0))
            self._memory = mmap.mmap(self._socket.fileno(), block_bytes * BLOCKS)
            self._socket.bind(("lo", _ETH_P_ALL))
        except OSError:
            self._socket.close()
            raise
        self._view = memoryview(self._memory)
        self._next = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def packets(self) -> Iterator[tuple[memoryview, int]]:
        """(what was caught of a packet, from the IP header on; how long it was), of all that the kernel has handed over."""
        while True:
            start = self._next * self._block_bytes
            status, count, at = struct.unpack_from("=3I", self._view, start + 8)
            if not status & _FOR_USER:
                return
            at += start
            for _ in range(count):
                step, _, _, caught, length = struct.unpack_from("=5I", self._view, at)
                network = at + struct.unpack_from("=H", self._view, at + 26)[0]
                yield self._view[network:network + caught], length
                at += step
            struct.pack_into("=I", self._view, start + 8, 0)  # the kernel may write here again
            self._next = (self._next + 1) % BLOCKS

    def lost(self) -> int:
        """Packets for which there was no room, since this was last asked."""
        return struct.unpack("=3I", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 12))[1]

    def close(self) -> None:
        self._view.release()
        self._memory.close()
        self._socket.close()


class Witness:
    """Listens to one run of ranks after the other.  Raises: OSError where the loopback may not be read."""

    def __init__(self, weighed: bool = False):
        """weighed: with room for all that large models send from one look at the ranks' memory to the next."""
        self._block_bytes = LARGE_BYTES if weighed else SMALL_BYTES
        self._marker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._marker.bind(("127.0.0.1", 0))
        self._marker_end: End = (_LOCALHOST, self._marker.getsockname()[1])
        try:
            self._ring = PacketRing(self._block_bytes)
        except OSError:
            self._marker.close()
            raise
        self._connections: dict[frozenset[End], Connection] = {}
        self.begin()

    def fileno(self) -> int:
        """For a selector: there is something to look at."""
        return self._ring.fileno()

    def begin(self) -> None:
        """Forget all that was before."""
        for _ in self._ring.packets():
            pass
        self._ring.lost()
        self._store: End | None = None
        self._started, self._store_bytes_before = False, 0
        self._past = set(self._connections)  # packets that were still on their way
        self._connections, self._closed = {}, []
        self._unclaimed: set[Connection] = set()
        self._ask_again = False
        self._other: list[Flow] = []
        self._missed = False
        self._marks = self._segments = 0

    def expect_store(self, port: int) -> None:
        """Where the ranks of this run meet, before they do."""
        self._store = (_LOCALHOST, port)

    def look(self, holders: Holders) -> None:
        """Take in what has come since, and find out whose the new connections are while they are open."""
        for packet, length in self._ring.packets():
            try:
                self._take(*read_packet(packet, length))
            except (IndexError, struct.error):
                self._missed = True
        if self._ask_again and self._started:
            self._claim(holders())

    def note_start(self, holders: Holders, ranks: int) -> None:
        """From here on the ranks work on their task. Before, they run no code of students, and all meet at the store."""
        self._wait_for_marker(holders)
        held = holders()
        self._claim(held)
        self._missed = self._missed or bool(self._unclaimed) or len(set(held.values())) < ranks
        self._store_bytes_before = self._store_bytes()
        self._started = True

    def testify(self, holders: Holders) -> Observed:
        """All that crossed since `begin`."""
        self._wait_for_marker(holders)
        if self._unclaimed:
            self._claim(holders())
        self._missed = self._missed or self._ring.lost() > 0
        everything = self._all_connections()
        between = [connection for connection in everything if connection.server != self._store]
        flows = [flow for connection in between for flow in connection.flows()]
        ahead = [flow for flow in most_ahead(between) if flow.ahead > 0]
        complete = not self._missed and all(connection.complete for connection in everything)
        return Observed(complete, summed(flows + ahead + self._other), self._store_bytes() - self._store_bytes_before)

    def close(self) -> None:
        self._ring.close()
        self._marker.close()

    def _all_connections(self) -> list[Connection]:
        return [*self._closed, *self._connections.values()]

    def _store_bytes(self) -> int:
        return sum(connection.bytes_from(connection.client) for connection in self._all_connections()
                   if connection.server == self._store)

    def _wait_for_marker(self, holders: Holders) -> None:
        """Packets keep their order: once one of our own has come back, all that was sent before has been seen."""
        wanted, patience = self._marks + 1, time.monotonic() + MARKER_PATIENCE_S
        for _ in range(self._block_bytes // MARKER_BYTES + 1):  # which fill a block, so that it is handed over at once
            self._marker.sendto(bytes(MARKER_BYTES), self._marker.getsockname())
        while self._marks < wanted and time.monotonic() < patience:
            select.select([self._ring], [], [], 0.002)
            self.look(holders)
        self._missed = self._missed or self._marks < wanted

    def _take(self, protocol: int, source: bytes, target: bytes, content: memoryview, length: int) -> None:
        if protocol == _TCP:
            self._take_segment(read_segment(source, target, content, length))
        elif protocol not in (_ICMP, _ICMP6):
            ports = struct.unpack_from("!HH", content)
            if ((source, ports[0]), (target, ports[1])) == (self._marker_end, self._marker_end):
                self._marks += 1
            elif ports[1] != _DNS_PORT:  # where nobody can listen: looking up a name asks there
                self._other.append(Flow(None, None, NOT_TCP, 1, length))

    def _take_segment(self, segment: Segment) -> None:
        key = frozenset((segment.source, segment.target))
        connection = self._connections.get(key)
        if opens(segment) and not (connection and connection.is_begun_by(segment)):
            self._closed += [connection] if connection else []
            connection = self._connections[key] = Connection(segment)
            if connection.server != self._store:
                self._unclaimed.add(connection)
        if connection:
            self._segments += 1
            connection.take(segment, self._segments)
            self._ask_again = self._ask_again or connection in self._unclaimed
        elif segment.length and key not in self._past:
            self._missed = True

    def _claim(self, held: Mapping[tuple[End, End], int]) -> None:
        self._ask_again = False
        for connection in list(self._unclaimed):
            ends = (connection.client, connection.server)
            for own, other in (ends, ends[::-1]):
                if (own, other) in held:
                    connection.owners[own] = held[own, other]
            if len(connection.owners) == 2 or connection.closing:
                self._unclaimed.discard(connection)


def read_packet(packet: memoryview, length: int) -> tuple[int, bytes, bytes, memoryview, int]:
    """(protocol, last four bytes of the source address and of the target's, what follows the IP header, how long that is)"""
    if packet[0] >> 4 == 4:
        header = (packet[0] & 15) * 4
        whole = struct.unpack_from("!H", packet, 2)[0] or length  # 0: longer than two bytes can say
        return packet[9], bytes(packet[12:16]), bytes(packet[16:20]), packet[header:whole], whole - header
    whole = struct.unpack_from("!H", packet, 4)[0] or length - 40
    return packet[6], bytes(packet[20:24]), bytes(packet[36:40]), packet[40:40 + whole], whole


def read_segment(source: bytes, target: bytes, content: memoryview, length: int) -> Segment:
    """A TCP segment of an IP packet's content."""
    from_port, to_port, sequence, _, offset, flags = struct.unpack_from("!HHIIBB", content)
    header = (offset >> 4) * 4
    return Segment((source, from_port), (target, to_port), sequence, flags, content[header:], length - header)
