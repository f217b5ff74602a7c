"""TCP connections put together again from packets, and gloo's messages in them counted; payload is never kept.

gloo writes a sequence number when it connects, and then a preamble of six 8-byte words before each message: bytes with the
preamble, opcode, slot, offset, length, remote offset (gloo/transport/tcp/pair.h). The slot's top byte names the collective
(gloo/types.h); a send has its tag in the slot, and so a 0 there.
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, permutations

from grader.evidence.traffic import CONNECTION, FOREIGN, NOTICE, Flow

KINDS = {0: "send", 1: "gather", 2: "all_gather", 3: "reduce", 4: "all_reduce", 5: "scatter", 6: "broadcast", 7: "barrier",
         8: "all_to_all"}
End = tuple[bytes, int]  # the last four bytes of an address (enough on a loopback), port

_HANDSHAKE_BYTES, _PREAMBLE = 8, struct.Struct("=6Q")
_SEND, _READY_TO_SEND, _READY_TO_RECEIVE = 1, 2, 3
_HELD_BYTES = 8 << 20  # of packets that came before their turn
_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10


@dataclass(frozen=True)
class Segment:
    """What a TCP packet says. payload: what was caught of its `length` bytes."""

    source: End
    target: End
    sequence: int
    flags: int
    payload: memoryview
    length: int


class GlooParser:
    """One direction of a connection as gloo's messages: bytes in any pieces go in, counts come out.

    messages, bytes: by kind. What is no gloo message is counted in bytes as FOREIGN, from there on to the end.
    """

    def __init__(self, handshake: bool):
        self.messages: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self._head = b""
        self._wanted = _HANDSHAKE_BYTES if handshake else _PREAMBLE.size
        self._kind, self._left = "", 0  # of the payload that follows

    def take(self, data: memoryview) -> None:
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self.bytes[self._kind] += step
                self._left -= step
            else:
                step = min(self._wanted - len(self._head), len(data) - at)
                self._head += bytes(data[at:at + step])
                if len(self._head) == self._wanted:
                    self._read_head()
            at += step

    @property
    def unread(self) -> int:
        """Bytes of a head that has not come whole."""
        return len(self._head)

    def _read_head(self) -> None:
        head, self._head = self._head, b""
        if self._wanted == _HANDSHAKE_BYTES:
            self._wanted = _PREAMBLE.size
            return
        whole, opcode, slot, offset, length, remote_offset = _PREAMBLE.unpack(head)
        kind = KINDS.get(slot >> 56, f"collective {slot >> 56}")
        if opcode == _SEND and whole == _PREAMBLE.size + length and not (offset or remote_offset):
            self._begin(kind, length)
        elif opcode in (_READY_TO_SEND, _READY_TO_RECEIVE) and whole == _PREAMBLE.size and not (offset or remote_offset):
            self._begin(NOTICE, 0)
        else:
            self._begin(FOREIGN, 1 << 62)
            self.bytes[FOREIGN] += len(head)

    def _begin(self, kind: str, length: int) -> None:
        self._kind, self._left = kind, length
        self.messages[kind] += 1


class Direction:
    """One direction of a TCP connection: its segments in order, each byte once."""

    def __init__(self, first: int, parser: GlooParser):
        self.parser = parser
        self.total = 0
        self.broken = False  # a packet was caught in part, or too many came before their turn
        self._next = first
        self._early: dict[int, bytes] = {}

    @property
    def complete(self) -> bool:
        return not self.broken and not self._early

    def take(self, sequence: int, payload: memoryview, length: int) -> None:
        if len(payload) < length:
            self.broken = True
        ahead = (sequence - self._next) & 0xFFFFFFFF
        if ahead >= 1 << 31:  # sent before, in whole or in part
            payload, ahead = payload[(1 << 32) - ahead:], 0
        if ahead == 0:
            self._pass_on(payload)
            self._catch_up()
        elif len(payload) + sum(map(len, self._early.values())) <= _HELD_BYTES:
            self._early[sequence] = max(bytes(payload), self._early.get(sequence, b""), key=len)
        else:
            self.broken = True

    def _pass_on(self, payload: memoryview) -> None:
        self.total += len(payload)
        self._next = (self._next + len(payload)) & 0xFFFFFFFF
        self.parser.take(payload)

    def _catch_up(self) -> None:
        for sequence in sorted(self._early, key=lambda s: (s - self._next) & 0xFFFFFFFF):
            behind = (self._next - sequence) & 0xFFFFFFFF
            if behind < 1 << 31:
                self._pass_on(memoryview(self._early.pop(sequence))[behind:])


class Connection:
    """Both directions of one TCP connection, from its first packet on.

    client: who connected. owners: the rank at each end, as far as it is known. closing: one side has begun to close.
    sends: (when, whose) each gloo send began.
    """

    def __init__(self, first: Segment):
        self.client, self.server = first.source, first.target
        self.owners: dict[End, int] = {}
        self.closing = False
        self.sends: list[tuple[int, End]] = []
        self._first = first.sequence
        self._directions: dict[End, Direction] = {
            first.source: Direction((first.sequence + 1) & 0xFFFFFFFF, GlooParser(handshake=True))}

    def take(self, segment: Segment, when: int = 0) -> None:
        is_start = segment.flags & _SYN
        if segment.source == self.server and is_start and self.server not in self._directions:
            self._directions[self.server] = Direction((segment.sequence + 1) & 0xFFFFFFFF, GlooParser(handshake=False))
        self.closing = self.closing or bool(segment.flags & (_FIN | _RST))
        direction = self._directions.get(segment.source)
        if direction and segment.length:
            before = direction.parser.messages["send"]
            direction.take(segment.sequence + bool(is_start), segment.payload, segment.length)
            self.sends += [(when, segment.source)] * (direction.parser.messages["send"] - before)

    def is_begun_by(self, segment: Segment) -> bool:
        """Whether this opening packet is (again) the one that opened this connection."""
        return segment.source == self.client and segment.sequence == self._first

    @property
    def complete(self) -> bool:
        return all(direction.complete for direction in self._directions.values())

    def bytes_from(self, end: End) -> int:
        """All that this end has sent."""
        return self._directions[end].total if end in self._directions else 0

    def flows(self) -> list[Flow]:
        """The messages of both directions, and one of kind CONNECTION if anything was said."""
        found, ranks = [], {end: self.owners.get(end) for end in (self.client, self.server)}
        for end, direction in self._directions.items():
            source, target = ranks[end], ranks[self.server if end == self.client else self.client]
            counted = direction.parser
            found += [Flow(source, target, kind, number, counted.bytes[kind]) for kind, number in counted.messages.items()]
            if counted.unread and not counted.messages:
                found.append(Flow(source, target, FOREIGN, 1, counted.unread))
        spoke = any(direction.total for direction in self._directions.values())
        return found + ([Flow(ranks[self.client], ranks[self.server], CONNECTION, 1, 0)] if spoke else [])


def opens(segment: Segment) -> bool:
    """Whether this is the first packet of a connection."""
    return segment.flags & (_SYN | _ACK) == _SYN


def most_ahead(connections: Iterable[Connection]) -> Iterator[Flow]:
    """For each two ranks that are known, both ways: how far sends had been ahead of those that came back."""
    between: dict[frozenset[int], list[tuple[int, int]]] = defaultdict(list)
    for connection in connections:
        if len({*connection.owners.values()}) == 2:  # and not a rank that speaks to itself
            between[frozenset(connection.owners.values())] += [(when, connection.owners[end])
                                                               for when, end in connection.sends]
    for pair, sends in between.items():
        for source, target in permutations(pair):
            steps = [1 if sender == source else -1 for _, sender in sorted(sends)]
            yield Flow(source, target, "send", 0, 0, max(accumulate(steps), default=0))


def summed(flows: Iterable[Flow]) -> tuple[Flow, ...]:
    """One flow for each source, target and kind."""
    totals: dict[tuple, list[int]] = defaultdict(lambda: [0, 0, 0])
    for flow in flows:
        total = totals[flow.source, flow.target, flow.kind]
        total[0] += flow.messages
        total[1] += flow.bytes
        total[2] = max(total[2], flow.ahead)
    return tuple(Flow(*key, *total) for key, total in totals.items())
