"""All ranks' programs together, in simulated time: who posts what when, what meets, when it is through, who waits."""

import heapq
from array import array
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from utils.deadlocks.waits import difference, splits_fit
from utils.simulation.cluster import Cluster
from utils.simulation.collectives import pairwise
from utils.simulation.network import Network
from utils.simulation.program import CALL, COMPUTE, Program
from utils.trace.calls import POINT_TO_POINT, peer_of

_TOTAL_IS_ALL_RANKS = frozenset({"all_gather", "gather"})  # operations whose input is one rank's part


@dataclass
class Timetable:
    """times[r][i]: when rank r came to its step i (only as many as it reached); done[r][k]: when its call k was through.

    met[r][k]: when the last partner of call k had come. Both are no numbers (NaN) of a call that never is.
    lost: (rank, call) of messages whose Work was thrown away before their partner came.
    """

    times: list[array]
    done: list[array]
    met: list[array]
    lost: set[tuple[int, int]]
    ended: list[bool]
    network: Network

    @property
    def duration_s(self) -> float:
        return max((times[-1] for times in self.times), default=0.0)


@dataclass
class _Meeting:
    """A call as far as its partners have made it."""

    calls: list[tuple[int, int]] = field(default_factory=list)  # (rank, number)
    facts: dict | None = None
    exchanged: dict[int, dict] = field(default_factory=dict)  # of an all-to-all: rank -> its call


class MismatchInPlay(Exception):
    """Partners' calls differ; `timetable` tells how far everyone came."""

    def __init__(self, timetable: Timetable):
        super().__init__("calls that meet differ")
        self.timetable = timetable


def play(programs: Sequence[Program], cluster: Cluster) -> Timetable:
    """From time 0 until nobody can go on: everyone has ended, or those who have not wait for what never comes."""
    stage = _Stage(programs, cluster)
    stage.run()
    return stage.timetable


def _shares(facts: dict) -> list[float]:
    """Bytes that an all-to-all's caller has for each member."""
    sent = facts["splits"][0]
    return [count * facts["bytes_given"] / max(1, sum(sent)) for count in sent]


class _Stage:
    def __init__(self, programs: Sequence[Program], cluster: Cluster):
        n = len(programs)
        self._programs, self._cluster, network = programs, cluster, Network(cluster)
        times, done, met = ([array("d") for _ in range(n)] for _ in range(3))
        self.timetable = Timetable(times, done, met, set(), [False] * n, network)
        self._at = [0] * n
        self._parked: dict[tuple[int, int], float] = {}  # (rank, number of the call it waits for) -> since when
        self._meetings: dict[tuple, _Meeting] = {}
        self._collectives_made: dict[tuple[int, str], int] = defaultdict(int)
        self._sends: dict[tuple, deque] = defaultdict(deque)
        self._receives: dict[tuple, deque] = defaultdict(deque)
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

    def _post(self, rank: int, facts: dict, now: float) -> None:
        done = self.timetable.done[rank]
        number = len(done)
        done.append(float("nan"))
        self.timetable.met[rank].append(float("nan"))
        if facts["op"] in POINT_TO_POINT:
            self._post_message(rank, number, facts, now)
        else:
            self._post_collective(rank, number, facts, now)

    def _post_message(self, rank: int, number: int, facts: dict, now: float) -> None:
        group, tag, peer = facts["group"], facts["tag"], peer_of(facts)
        if facts["op"] == "send":
            other = self._take(self._receives, [(group, peer, rank, tag), (group, peer, None, tag)])
            if other is None:
                self._sends[group, rank, peer, tag].append((rank, number, facts))
            else:
                self._carry((rank, number, facts), other, now)
            return
        senders = facts["members"] if peer is None else [peer]
        other = self._take(self._sends, [(group, sender, rank, tag) for sender in senders], lost_too=peer is not None)
        if other is None:
            self._receives[group, rank, peer, tag].append((rank, number, facts))
        else:
            self._carry(other, (rank, number, facts), now)

    def _take(self, waiting: dict[tuple, deque], keys: list[tuple], lost_too: bool = True):
        for key in keys:
            while waiting.get(key):
                other = waiting[key].popleft()
                if lost_too or other[:2] not in self.timetable.lost:
                    return other
        return None

    def _drop(self, rank: int, numbers: Sequence[int]) -> None:
        """Their Works are thrown away: whoever meets such a message waits for ever, unless it is on its way already."""
        done = self.timetable.done[rank]
        self.timetable.lost.update((rank, number) for number in numbers if done[number] != done[number])

    def _carry(self, send: tuple, receive: tuple, now: float) -> None:
        """Both ends are there: the message goes."""
        if difference(send[2], receive[2]):
            raise MismatchInPlay(self.timetable)
        if self.timetable.lost & {send[:2], receive[:2]}:
            return
        arrived = self.timetable.network.send(send[0], receive[0], send[2]["bytes"], now)
        for rank, number, _ in (send, receive):
            self._through(rank, number, now, arrived)

    def _post_collective(self, rank: int, number: int, facts: dict, now: float) -> None:
        group = facts["group"]
        count = self._collectives_made[rank, group] = self._collectives_made[rank, group] + 1
        meeting = self._meetings.setdefault((group, count), _Meeting())
        if meeting.facts is None:
            meeting.facts = facts
        elif meeting.facts is not facts and difference(meeting.facts, facts):
            raise MismatchInPlay(self.timetable)
        meeting.calls.append((rank, number))
        if facts["op"] == "all_to_all":
            meeting.exchanged[rank] = facts
        if facts["op"] in ("broadcast", "scatter") and facts["bytes_given"]:
            meeting.facts = facts  # the root knows how much there is
        if len(meeting.calls) == len(facts["members"]):
            del self._meetings[group, count]
            self._exchange(meeting, now)

    def _exchange(self, meeting: _Meeting, now: float) -> None:
        """All have come: a group's collectives go one after the other."""
        facts, members = meeting.facts, meeting.facts["members"]
        total = facts["bytes_given"] * (len(members) if facts["op"] in _TOTAL_IS_ALL_RANKS else 1)
        total = facts["bytes"] if facts["op"] == "broadcast" else total
        ready = max(now, self._group_free_at[facts["group"]])
        free = facts["op"] == "new_group"
        rounds = [] if free else self._cluster.algorithm(facts["op"], total, members, facts["root"] or 0)
        if meeting.exchanged:
            calls = [meeting.exchanged[member] for member in members]
            if not splits_fit([call["splits"] for call in calls]):
                raise MismatchInPlay(self.timetable)
            shares = [_shares(call) for call in calls]
            if len({size for share in shares for size in share}) > 1:  # algorithms know equal shares only
                rounds = pairwise(shares, members)
        finished = self._group_free_at[facts["group"]] = self.timetable.network.exchange(rounds, ready)
        for rank, number in meeting.calls:
            self._through(rank, number, now, finished)

    def _through(self, rank: int, number: int, met: float, when: float) -> None:
        self.timetable.met[rank][number], self.timetable.done[rank][number] = met, when
        since = self._parked.pop((rank, number), None)
        if since is not None:
            heapq.heappush(self._heap, (max(since, when), rank))
