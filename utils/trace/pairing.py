"""Which calls of different ranks meet. Written once: for runs as they go on, for simulated ones, and for traces.

Collectives of a group meet in the order in which each rank makes them. A message meets the receive that names its sender, in
the same group, with the same tag, in order. A receive from anybody takes what no receive that was posted before it waits
for: gloo offers a message first to a receive that names its sender, then to the oldest one from anybody.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from utils.trace.calls import POINT_TO_POINT, CallFacts, peer_of


class Posted(NamedTuple):
    """A call that a rank has made. time_s: when, where that matters."""

    rank: int
    number: int
    facts: CallFacts
    time_s: float = 0.0


@dataclass(slots=True, eq=False)
class Meeting:
    """Calls that belong together, by rank, as far as they have been made; `wanted`: how many there will be."""

    wanted: int
    calls: dict[int, Posted] = field(default_factory=dict)
    order: int = 0  # of its first call among those of its mailbox
    taken_s: float | None = None  # by when it was known to have a partner, whoever that is
    differs: bool = False  # its calls do not fit; for who compares them

    @property
    def is_complete(self) -> bool:
        return len(self.calls) == self.wanted

    @property
    def first(self) -> Posted:
        return next(iter(self.calls.values()))

    @property
    def posted_s(self) -> float:
        return self.first.time_s

    def besides(self, rank: int) -> Posted | None:
        """The first call of another rank."""
        return next((call for call in self.calls.values() if call.rank != rank), None)


class Mailbox:
    """Messages to one rank in one group with one tag, and its receives there, that have not met."""

    def __init__(self):
        self.sends: dict[int, deque[Meeting]] = defaultdict(deque)  # by sender
        self.named: dict[int, deque[Meeting]] = defaultdict(deque)  # receives, by the sender that they name
        self.from_anybody: deque[Meeting] = deque()
        self.posts = 0

    def take(self, queue: deque[Meeting]) -> Meeting | None:
        return queue.popleft() if queue else None

    def comes_first(self, receive: Meeting) -> bool:
        """Whether no older receive from anybody could have the message that this one waits for."""
        return not self.from_anybody or receive.order < self.from_anybody[0].order

    def pair_up(self, sender: int) -> list[Meeting]:
        """Join messages of `sender` and receives that can have no other partner."""
        named, sends, made = self.named[sender], self.sends[sender], []
        while named and sends and self.comes_first(named[0]):
            receive, send = named.popleft(), sends.popleft()
            send.calls |= receive.calls
            receive.calls = send.calls
            made.append(send)
        return made


class PairingBook:
    """Takes the calls of all ranks, in order within each rank, and says which of them meet.

    at_once: a receive from anybody takes a message as soon as both are there: calls come in the order of time. Else it
    takes one when it is told whose that was (`end`): reports of real ranks may come in another order than their messages.
    given_up: (rank, number) of messages and receives whose Work was thrown away; whoever uses the book puts them in.
    """

    def __init__(self, *, at_once: bool):
        self.given_up: set[tuple[int, int]] = set()
        self._at_once = at_once
        self._made: dict[tuple[int, str], int] = defaultdict(int)  # (rank, group) -> collectives
        self._open: dict[tuple[str, int], Meeting] = {}  # (group, how many before it) -> a collective
        self._mailboxes: dict[int, dict[tuple, Mailbox]] = defaultdict(dict)  # receiver -> (group, tag) -> mailbox

    def post(self, rank: int, number: int, facts: CallFacts, sender: int | None = None, time_s: float = 0.0) -> Meeting:
        """What this call meets, itself included. sender: whose message a receive from anybody will take, where it is known.

        Where calls that meet later are joined to others (`end`), the Meeting that was returned has all of them, too.
        """
        call = Posted(rank, number, facts, time_s)
        if facts.op in POINT_TO_POINT:
            return self._post_message(call, peer_of(facts) if sender is None else sender)
        return self._post_collective(call)

    def withdraw(self, rank: int, meeting: Meeting) -> None:
        """This call, the latest of `rank`, was not made after all. A message that met it waits for another partner."""
        call = meeting.calls.pop(rank)
        group, left = call.facts.group, [*meeting.calls.values()]
        if call.facts.op not in POINT_TO_POINT:
            self._made[rank, group] -= 1
            self._open[group, self._made[rank, group]] = meeting
            if not left:
                del self._open[group, self._made[rank, group]]
            return
        peer = peer_of(call.facts)
        box = self._mailbox(peer if call.facts.op == "send" else rank, call.facts)
        for queue in (box.sends[rank], box.named[peer], box.from_anybody):
            if meeting in queue:
                queue.remove(meeting)
        if left:
            partner = left[0]
            back = box.sends[partner.rank] if partner.facts.op == "send" else box.named[rank]
            (box.from_anybody if partner.facts.peer is None else back).appendleft(meeting)

    def _post_collective(self, call: Posted) -> Meeting:
        group, members = call.facts.group, call.facts.members
        if call.facts.op == "new_group" and call.rank not in members:  # which then meet without it
            return Meeting(1, {call.rank: call})
        key = group, self._made[call.rank, group]
        self._made[call.rank, group] += 1
        meeting = self._open.get(key)
        if meeting is None:
            meeting = self._open[key] = Meeting(len(members))
        meeting.calls[call.rank] = call
        if meeting.is_complete:
            del self._open[key]
        return meeting

    def _post_message(self, call: Posted, peer: int | None) -> Meeting:
        is_send = call.facts.op == "send"
        box = self._mailbox(peer if is_send else call.rank, call.facts)
        if is_send:
            queue, partner = box.sends[call.rank], self._receive_for(box, call.rank)
        elif peer is None:
            queue, partner = box.from_anybody, self._oldest_message(box) if self._at_once else None
        else:
            queue = box.named[peer]
            partner = box.take(box.sends[peer]) if self._at_once or not box.from_anybody else None
        if partner is None:
            box.posts += 1
            partner = Meeting(2, order=box.posts)
            queue.append(partner)
        partner.calls[call.rank] = call
        return partner

    def _mailbox(self, receiver: int, facts: CallFacts) -> Mailbox:
        boxes, key = self._mailboxes[receiver], (facts.group, facts.tag)
        if key not in boxes:
            boxes[key] = Mailbox()
        return boxes[key]

    def _receive_for(self, box: Mailbox, sender: int) -> Meeting | None:
        named = box.named[sender]
        if named and (self._at_once or box.comes_first(named[0])):
            return named.popleft()
        return box.take(box.from_anybody) if self._at_once else None

    def _oldest_message(self, box: Mailbox) -> Meeting | None:
        for sends in box.sends.values():
            while sends and not self._is_there(sends[0]):  # nobody waits for those of a receive from anybody
                sends.popleft()
        oldest = min((sends for sends in box.sends.values() if sends), key=lambda sends: sends[0].order, default=deque())
        return box.take(oldest)

    def end(self, rank: int, meeting: Meeting, time_s: float, sender: int | None = None) -> list[Meeting]:
        """This call of `rank` has ended; a receive from anybody with a message of `sender`.  Returns: what met by that."""
        call = meeting.calls[rank]
        meeting.taken_s = time_s
        if meeting.is_complete or call.facts.op != "recv":
            return []
        box, peer = self._mailbox(rank, call.facts), peer_of(call.facts)
        if peer is None:
            if sender is None or meeting not in box.from_anybody:
                return []
            for older in box.from_anybody:  # they are served in the order in which they were posted
                if older.order < meeting.order and older.taken_s is None:
                    older.taken_s = time_s
            box.from_anybody.remove(meeting)
            meeting.order = 0
            box.named[sender].appendleft(meeting)
            return [pair for each in list(box.named) for pair in box.pair_up(each)]
        for receive in box.named[peer]:  # messages of one sender come in order
            receive.order = 0
            if receive is meeting:
                break
        return box.pair_up(peer)

    # ── questions ──

    def can_end(self, rank: int, meeting: Meeting) -> bool:
        """Whether a message or receive that has met nobody for certain may end with what was posted.

        True where that depends on which of the messages arrived first, and nobody has told.
        """
        call = meeting.calls[rank]
        peer = peer_of(call.facts)
        box = self._mailbox(peer if call.facts.op == "send" else rank, call.facts)
        takers = self._there(box.from_anybody)
        if not takers:
            return False
        sends = {sender: self._there(queue) for sender, queue in box.sends.items()}
        if call.facts.op == "send":
            for_others = sum(_by_anybody(queue, box.named[other]) for other, queue in sends.items() if other != rank)
            named = self._there(box.named[rank])
            return meeting in sends[rank] and sends[rank].index(meeting) < len(named) + max(0, len(takers) - for_others)
        if peer is not None:
            from_others = sum(len(queue) for sender, queue in sends.items() if sender != peer)
            taken = sum(receive.taken_s is not None for receive in takers) - from_others
            taken = max(0, taken, _by_anybody(sends.get(peer, []), box.named[peer]))
            return box.named[peer].index(meeting) + taken < len(sends.get(peer, ()))
        older = takers.index(meeting) if meeting in takers else 0  # receives from anybody, which are served before it
        left = sum(map(len, sends.values())) - older
        for sender, queue in sends.items():  # whose message it could be, once receives before it have had theirs
            named = sum(receive.order < meeting.order for receive in box.named[sender])
            if len(queue) > named and left > named:
                return True
        return False

    def messages_for(self, rank: int) -> list[Posted]:
        """What was sent to `rank` and met no receive of its own, by sender."""
        sends = [meeting.first for box in self._mailboxes[rank].values() for queue in box.sends.values()
                 for meeting in self._there(queue) if meeting.taken_s is None]
        return sorted(sends, key=lambda call: call[:2])

    def offered_to(self, rank: int, meeting: Meeting) -> list[Posted]:
        """The first message of each sender for a receive from anybody, if that is the only receive in its mailbox."""
        box = self._mailbox(rank, meeting.calls[rank].facts)
        if meeting.is_complete or list(box.from_anybody) != [meeting] or any(box.named.values()):
            return []
        return [queue[0].first for queue in map(self._there, box.sends.values()) if queue]

    def open_collectives(self) -> Iterable[Meeting]:
        """Those that some of their group have not joined."""
        return self._open.values()

    def is_given_up(self, call: Posted) -> bool:
        """Whether its Work was thrown away."""
        return call[:2] in self.given_up

    def _is_there(self, meeting: Meeting) -> bool:
        return not self.given_up or not any(map(self.is_given_up, meeting.calls.values()))

    def _there(self, queue: Iterable[Meeting]) -> list[Meeting]:
        return list(filter(self._is_there, queue))


def _by_anybody(sends: list[Meeting], named: deque[Meeting]) -> int:
    """How many messages of one sender receives from anybody must have taken: more were than named receives were there."""
    there = [(place, sum(receive.posted_s <= send.taken_s for receive in named))
             for place, send in enumerate(sends, 1) if send.taken_s is not None]
    return max((place - receives for place, receives in there), default=0)
