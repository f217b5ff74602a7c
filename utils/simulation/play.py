"""All ranks' programs together, in simulated time: who posts what when, what meets, when it is through, who waits."""

import heapq
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from utils.deadlocks.waits import Disagreement, difference, splits_fit
from utils.simulation.cluster import Cluster
from utils.simulation.collectives import pairwise
from utils.simulation.network import Network
from utils.simulation.program import CALL, COMPUTE, Program
from utils.trace.calls import POINT_TO_POINT, CallFacts, root_of
from utils.trace.pairing import Meeting, PairingBook

_TOTAL_IS_ALL_RANKS = frozenset({"all_gather", "gather"})  # operations whose input is one rank's part


@dataclass
class Timetable:
    """times[r][i]: when rank r came to its step i (only as many as it reached); done[r][k]: when its call k was through.

    met[r][k]: when the last partner of call k had come. Both are no numbers (NaN) of a call that never is.
    given_up: (rank, call) of messages whose Work was thrown away before their partner came.
    senders: (rank, call) of a receive from anybody -> whose message it took. disagreement: the first, of calls that met.
    """

    times: list[array]
    done: list[array]
    met: list[array]
    given_up: set[tuple[int, int]]
    ended: list[bool]
    network: Network
    senders: dict[tuple[int, int], int] = field(default_factory=dict)
    disagreement: Disagreement | None = None

    @property
    def duration_s(self) -> float:
        return max((times[-1] for times in self.times), default=0.0)


def play(programs: Sequence[Program], cluster: Cluster) -> Timetable:
    """From time 0 until nobody can go on: everyone has ended, or those who have not wait for what never comes."""
    player = _Player(programs, cluster)
    player.run()
    return player.timetable


def _shares(facts: CallFacts) -> list[float]:
    """Bytes that an all-to-all's caller has for each member."""
    sent = facts.splits[0]
    return [count * facts.bytes_given / max(1, sum(sent)) for count in sent]


class _Player:
    def __init__(self, programs: Sequence[Program], cluster: Cluster):
        n = len(programs)
        self._programs, self._cluster, network = programs, cluster, Network(cluster)
        times, done, met = ([array("d") for _ in range(n)] for _ in range(3))
        self._book = PairingBook(at_once=True)
        self.timetable = Timetable(times, done, met, self._book.given_up, [False] * n, network)
        self._at = [0] * n
        self._parked: dict[tuple[int, int], float] = {}  # (rank, number of the call it waits for) -> since when
        self._group_free_at: dict[str, float] = defaultdict(float)
        self._heap = [(0.0, rank) for rank in range(n)]

    def run(self) -> None:
        heap = self._heap
        while heap:
            now, rank = heapq.heappop(heap)
            self._advance(rank, now)

    def _advance(self, rank: int, now: float) -> None:
        """Take steps until another rank's time has come first."""
        program, times, heap = self._programs[rank], self.timetable.times[rank], self._heap
        kinds, values, at = program.kinds, program.values, self._at[rank]
        while at < len(kinds):
            if len(times) == at:
                times.append(now)
                if at in program.drops:
                    self._drop(rank, program.drops[at])
            if kinds[at] == COMPUTE:
                now += values[at]
            elif kinds[at] == CALL:
                self._post(rank, program.facts[int(values[at])], now)
            else:
                through = self.timetable.done[rank][int(values[at])]
                if through != through:  # not a number: not through yet
                    self._at[rank] = at
                    self._parked[rank, int(values[at])] = now
                    return
                now = max(now, through)
            at += 1
            if heap and now > heap[0][0]:
                self._at[rank] = at
                heapq.heappush(heap, (now, rank))
                return
        self._at[rank] = at
        times.append(now)
        self._drop(rank, program.drops.get(at, ()))
        self.timetable.ended[rank] = True

    # ── meetings ──

    def _post(self, rank: int, facts: CallFacts, now: float) -> None:
        done = self.timetable.done[rank]
        number = len(done)
        done.append(float("nan"))
        self.timetable.met[rank].append(float("nan"))
        meeting = self._book.post(rank, number, facts)
        if what := self._difference(meeting, facts):
            self.timetable.disagreement = self.timetable.disagreement or Disagreement(what, meeting.calls)
            meeting.differs = True
        if meeting.is_complete and not meeting.differs:
            if facts.op in POINT_TO_POINT:
                self._carry(meeting, now)
            else:
                self._exchange(meeting, now)

    def _difference(self, meeting: Meeting, facts: CallFacts) -> str | None:
        """Between this newest call and the others; members of an all-to-all are compared once all have come."""
        first = meeting.first.facts
        if first is not facts and (what := difference(first, facts)):
            return what
        if not meeting.is_complete or facts.op != "all_to_all":
            return None
        return None if splits_fit([meeting.calls[member].facts.splits for member in facts.members]) else "splits"

    def _drop(self, rank: int, numbers: Sequence[int]) -> None:
        """Their Works are thrown away: whoever meets such a message waits for ever, unless it is on its way already."""
        done = self.timetable.done[rank]
        self.timetable.given_up.update((rank, number) for number in numbers if done[number] != done[number])

    def _carry(self, meeting: Meeting, now: float) -> None:
        """Both ends are there: the message goes."""
        send, receive = sorted(meeting.calls.values(), key=lambda call: call.facts.op != "send")
        if any(map(self._book.is_given_up, (send, receive))):
            return
        arrived = self.timetable.network.send(send.rank, receive.rank, send.facts.bytes, now)
        for call in (send, receive):
            self._through(call.rank, call.number, now, arrived)
        if receive.facts.is_from_anybody:
            self.timetable.senders[receive[:2]] = send.facts.members.index(send.rank)

    def _exchange(self, meeting: Meeting, now: float) -> None:
        """All have come: a group's collectives go one after the other."""
        facts = meeting.first.facts
        if facts.op in ("broadcast", "scatter"):  # the root knows how much there is
            facts = meeting.calls[root_of(facts)].facts
        members, group = facts.members, facts.group
        total = facts.bytes_given * (len(members) if facts.op in _TOTAL_IS_ALL_RANKS else 1)
        total = facts.bytes if facts.op == "broadcast" else total
        ready = max(now, self._group_free_at[group])
        free = facts.op == "new_group"
        rounds = [] if free else self._cluster.algorithm(facts.op, total, members, facts.root or 0)
        if facts.op == "all_to_all":
            shares = [_shares(meeting.calls[member].facts) for member in members]
            if len({size for share in shares for size in share}) > 1:  # algorithms know equal shares only
                rounds = pairwise(shares, members)
        finished = self._group_free_at[group] = self.timetable.network.exchange(rounds, ready)
        for call in meeting.calls.values():
            self._through(call.rank, call.number, now, finished)

    def _through(self, rank: int, number: int, met: float, when: float) -> None:
        self.timetable.met[rank][number], self.timetable.done[rank][number] = met, when
        since = self._parked.pop((rank, number), None)
        if since is not None:
            heapq.heappush(self._heap, (max(since, when), rank))
