"""The wait-for state of a run: who has called what, who stands where, and whether anyone can still move.

A pure bookkeeper: it is told each rank's reports in order and never looks at a clock.
A blocked rank can move if the partners of the call it waits for have made theirs, or could still come to make it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from utils.trace.calls import POINT_TO_POINT, CallFacts, peer_of
from utils.trace.pairing import Meeting, PairingBook, Posted

RUNNING, BLOCKED, ENDED = "running", "blocked", "ended"


@dataclass
class RankState:
    """Where one rank stands."""

    waits_for: int | None = None  # call number
    wait_source: list | None = None
    alone: bool = True  # no other thread was about when it began to wait
    idle_threads: list[str] | None = None  # else those with nothing to do; None if one may still make a call
    threads_wait_for: list[int] = field(default_factory=list)  # call numbers, of threads that are blocked themselves
    calls: dict[int, Posted] = field(default_factory=dict)
    ending: str = ""  # "returned", "raised", "died"

    @property
    def state(self) -> str:
        if self.ending:  # for good, whatever its other threads still do
            return ENDED
        return RUNNING if self.waits_for is None or (not self.alone and self.idle_threads is None) else BLOCKED

    @property
    def awaited(self) -> Posted:
        """The call that a blocked rank waits for."""
        return self.calls[self.waits_for]


@dataclass(frozen=True)
class Disagreement:
    """Ranks made the same call of a group with something that differs, or some have returned without making it."""

    what: str  # "operation", "dtype", "size", "root", "reduce_op", "splits", "ranks", "groups made", "members"
    posted: dict[int, Posted]  # by rank: every call that has come so far
    absent: set[int] = field(default_factory=set)  # ranks that have returned without it so far


class WaitState:
    """Follows the reports of all ranks of one run."""

    def __init__(self, world_size: int):
        self.ranks = [RankState() for _ in range(world_size)]
        self.disagreement: Disagreement | None = None
        self._book = PairingBook(at_once=False)
        self._meetings: dict[tuple[int, int], Meeting] = {}  # (rank, number) -> of each call that has not ended

    # ── reports ──

    def ingest(self, rank: int, kind: str, fields: dict) -> None:
        """Take in one report of one rank."""
        state = self.ranks[rank]
        if kind == "call":
            self._on_call(Posted(rank, fields["number"], fields["facts"], fields["time"]))
        elif kind == "wait":
            if not state.ending:
                self._begin_to_wait(state.calls[fields["number"]], fields["source"], fields["alone"])
        elif kind == "threads":
            state.idle_threads = fields["idle"] and [str(name) for name in fields["idle"]]
            state.threads_wait_for = [state.calls[number].number for number in fields["calls"]]
        elif kind == "withdrawn":
            self._withdraw(rank, fields["number"])
        elif kind == "dropped":
            self._book.given_up.add((rank, fields["number"]))
        elif kind in ("woke", "done") or "sender" in fields:  # "waited" may tell of a rank that only asked
            self._on_end(rank, fields["number"], fields)
            if kind == "woke":
                state.waits_for = None
        elif kind in ("returned", "raised", "died"):
            if state.state == BLOCKED:
                self._look_at_what_is_offered(rank)
            state.ending = kind
            self._look_for_absent()

    def _on_call(self, call: Posted) -> None:
        rank, number, facts, time_s = call
        state = self.ranks[rank]
        state.calls[number] = call
        state.idle_threads = None
        if not facts.thread:
            state.waits_for = None
        if facts.waits:
            self._begin_to_wait(call, facts.source, facts.alone)
        meeting = self._meetings[rank, number] = self._book.post(rank, number, facts, time_s=time_s)
        partners = meeting.calls.values()
        for partner in partners if facts.splits else islice(partners, 1):  # the others are like the first
            if partner.rank != rank:
                self._compare(partner, call, meeting)
        if facts.op == "new_group":
            self._look_for_absent()

    def _begin_to_wait(self, call: Posted, source: Sequence | None, alone: bool) -> None:
        state = self.ranks[call.rank]
        state.waits_for, state.wait_source, state.alone, state.idle_threads = call.number, source, alone, None

    def _withdraw(self, rank: int, number: int) -> None:
        """A call that was not made after all: it raised an error."""
        state = self.ranks[rank]
        if (meeting := self._meetings.pop((rank, number), None)) is not None:
            if self.disagreement and self.disagreement.posted is meeting.calls:  # because of which it may have raised that
                self.disagreement = replace(self.disagreement, posted=dict(meeting.calls))
            self._book.withdraw(rank, meeting)
            del state.calls[number]
        if state.waits_for == number:
            state.waits_for = None

    def _on_end(self, rank: int, number: int, fields: dict) -> None:
        """fields["sender"]: whose message a receive from anybody took, as a rank of its group."""
        meeting = self._meetings.pop((rank, number), None)
        if meeting is not None:
            sender = self.ranks[rank].calls[number].facts.members[fields["sender"]] if "sender" in fields else None
            for pair in self._book.end(rank, meeting, fields["time"], sender):
                self._compare(*pair.calls.values(), pair)

    def _compare(self, one: Posted, other: Posted, meeting: Meeting) -> None:
        if self.disagreement is None and (what := _disagreement(one, other)):
            self.disagreement = Disagreement(what, meeting.calls)

    def _look_for_absent(self) -> None:
        """new_group needs every rank: also where it happens to work without some, the names of later groups differ."""
        returned = {rank for rank, state in enumerate(self.ranks) if state.ending == "returned"}
        for meeting in self._book.open_collectives() if returned else ():
            facts = meeting.first.facts
            absent = returned.intersection(facts.members) - meeting.calls.keys()
            if facts.op == "new_group" and absent:
                self.disagreement = self.disagreement or Disagreement("members", meeting.calls)
                if self.disagreement.posted is meeting.calls:
                    self.disagreement.absent.update(absent)

    def look_at_the_dead(self) -> None:
        """Again: what was sent to a rank that died while it waited may have been told later than its death."""
        for rank, state in enumerate(self.ranks):
            if state.ending != "died" or not state.calls:
                continue
            if state.waits_for is None:  # gloo ended it before it could say that it waits for its last call
                state.waits_for = max(state.calls)
            self._look_at_what_is_offered(rank)

    def _look_at_what_is_offered(self, rank: int) -> None:
        """Whether a receive from anybody, for which `rank` waits, can get nothing but what does not fit."""
        facts, meeting = self.ranks[rank].awaited.facts, self._meeting_of(rank)
        if facts.is_from_anybody and meeting is not None and self.disagreement is None:
            offered = self._book.offered_to(rank, meeting)
            differ = [difference(message.facts, facts) for message in offered]
            if offered and all(differ):
                self.disagreement = Disagreement(differ[0], meeting.calls | {offered[0].rank: offered[0]})

    # ── questions ──

    def missing(self, rank: int, number: int | None = None) -> list[int]:
        """The ranks that have not made the call which `rank` waits for: nobody, if the call can complete.

        number: of another call, for which one of its threads waits.
        """
        number = self.ranks[rank].waits_for if number is None else number
        facts, meeting = self.ranks[rank].calls[number].facts, self._meetings.get((rank, number))
        if meeting is None:  # it has ended
            return []
        if facts.op not in POINT_TO_POINT:
            return [member for member in facts.members if member not in meeting.calls]
        partner, peer = meeting.besides(rank), peer_of(facts)
        if partner is not None:
            return [partner.rank] if self._book.is_given_up(partner) else []
        if self._book.can_end(rank, meeting):
            return []
        return [peer] if peer is not None else [member for member in facts.members if member != rank]

    def _meeting_of(self, rank: int) -> Meeting | None:
        """The calls that meet in the one that `rank` waits for, as far as they have been made; None once it has ended."""
        return self._meetings.get((rank, self.ranks[rank].waits_for))

    def dropped_partner(self, rank: int) -> Posted | None:
        """The matching call of what `rank` waits for, if it was made and then given up."""
        meeting = self._meeting_of(rank)
        partner = meeting and meeting.besides(rank)
        return partner if partner and self._book.is_given_up(partner) else None

    def messages_for(self, rank: int) -> list[Posted]:
        """Sends to `rank` that no receive of its own has met and nobody has given up, by sender."""
        return self._book.messages_for(rank)

    def stuck(self) -> frozenset[int]:
        """The ranks that can never move again, whatever the others do."""
        waiting = frozenset(r for r, s in enumerate(self.ranks) if s.state == BLOCKED)
        movable = {r for r, s in enumerate(self.ranks) if s.state == RUNNING}
        for rank in waiting:
            self._look_at_what_is_offered(rank)
        awaited = {r: [self.ranks[r].waits_for, *self.ranks[r].threads_wait_for] for r in waiting}
        missing = {(r, number): self.missing(r, number) for r, numbers in awaited.items() for number in numbers}
        while freed := {r for r in waiting - movable
                        if any(self._can_move(r, number, missing[r, number], movable) for number in awaited[r])}:
            movable |= freed
        return waiting - movable

    def _can_move(self, rank: int, number: int, missing: list[int], movable: set[int]) -> bool:
        if self.ranks[rank].calls[number].facts.is_from_anybody:
            return not missing or any(m in movable for m in missing)
        return all(m in movable for m in missing)


AGREED = {  # what must agree -> the fact that tells of it; the first that differs is told
    "message": {"dtype": "dtype", "size": "bytes"},
    "collective": {"operation": "op", "dtype": "dtype", "root": "root", "reduce_op": "reduce_op", "size": "element_count"},
}


def difference(one: CallFacts, other: CallFacts) -> str | None:
    """What differs between two calls that meet, or None. What an all-to-all exchanges is for `splits_fit` to see."""
    for what, fact in AGREED["message" if one.op in POINT_TO_POINT else "collective"].items():
        if getattr(one, fact) != getattr(other, fact):
            return what
    if one.op == "new_group":
        return "ranks" if one.shape != other.shape else "groups made" if one.made != other.made else None
    return None


def splits_fit(splits: Sequence[Sequence[Sequence[int]]]) -> bool:
    """Whether each member of an all-to-all sends each other what that expects. splits: of all members, in their order."""
    sent, expected = splits[0]
    if len({*sent, *expected}) == 1 and all(each == splits[0] for each in splits):  # equal shares, as a rule
        return True
    columns = zip(*(expected for _, expected in splits), strict=True)
    return all(sent == list(column) for (sent, _), column in zip(splits, columns, strict=True))


def _disagreement(one: Posted, other: Posted) -> str | None:
    return difference(one.facts, other.facts) or ("splits" if one.facts.splits and not _pair_fits(one, other) else None)


def _pair_fits(one: Posted, other: Posted) -> bool:
    """Whether what each of the two sends the other is what the other expects."""
    i, j = (_place_of(call.rank, call.facts.members) for call in (one, other))
    (one_sends, one_expects), (other_sends, other_expects) = one.facts.splits, other.facts.splits
    return one_sends[j] == other_expects[i] and other_sends[i] == one_expects[j]


def _place_of(rank: int, members: Sequence[int]) -> int:
    """Found at once in the world, where every rank is at its own place."""
    return rank if rank < len(members) and members[rank] == rank else members.index(rank)
