"""The wait-for state of a run: who has called what, who stands where, and whether anyone can still move.

A pure bookkeeper: it is told each rank's reports in order and never looks at a clock.
A blocked rank can move if the partners of the call it waits for have made theirs, or could still come to make it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from utils.trace.calls import POINT_TO_POINT, Matcher, peer_of

RUNNING, BLOCKED, ENDED = "running", "blocked", "ended"


@dataclass
class RankState:
    """Where one rank stands."""

    waits_for: int | None = None  # call number
    wait_source: list | None = None
    calls: dict[int, dict] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)  # sends and receives given up: their Work was thrown away
    ending: str = ""  # "returned", "raised", "died"

    @property
    def state(self) -> str:
        if self.ending:  # for good, whatever its other threads still do
            return ENDED
        return RUNNING if self.waits_for is None else BLOCKED

    @property
    def awaited(self) -> dict:
        """The call that a blocked rank waits for."""
        return self.calls[self.waits_for]


@dataclass(frozen=True)
class Disagreement:
    """Ranks made the same call of a group with something that differs."""

    what: str  # "operation", "dtype", "size", "root", "reduce_op", "splits", "ranks"
    calls: dict[int, dict]  # rank -> its call, for every rank that has come so far


class WaitState:
    """Follows the reports of all ranks of one run."""

    def __init__(self, world_size: int):
        self.ranks = [RankState() for _ in range(world_size)]
        self.disagreement: Disagreement | None = None
        self._matcher = Matcher()
        self._slots: dict[Any, dict[int, dict]] = defaultdict(dict)  # key -> rank -> call
        self._slot_of: dict[tuple[int, int], Any] = {}
        self._sends_to: dict[int, list[dict]] = defaultdict(list)

    # ── reports ──

    def ingest(self, rank: int, kind: str, fields: dict) -> None:
        """Take in one report of one rank."""
        state = self.ranks[rank]
        if kind == "call":
            self._on_call(rank, dict(fields, rank=rank))
        elif kind == "wait":
            if fields["alone"] and not state.ending:
                state.waits_for, state.wait_source = state.calls[fields["number"]]["number"], fields["source"]
        elif kind == "dropped":
            state.dropped.add(fields["number"])
        elif kind == "woke":
            state.waits_for = None
        elif kind in ("returned", "raised", "died"):
            state.ending = kind

    def _on_call(self, rank: int, call: dict) -> None:
        state = self.ranks[rank]
        state.calls[call["number"]] = call
        state.waits_for = None
        if call.get("waits") and call["alone"]:
            state.waits_for, state.wait_source = call["number"], call["source"]
        key = self._matcher.key(rank, call)
        self._slot_of[rank, call["number"]] = key
        partners = self._slots[key]
        partners[rank] = call
        if call["op"] == "send":
            self._sends_to[peer_of(call)].append(call)
        others = partners.values() if call["splits"] else islice(partners.values(), 1)  # the rest are like the first
        for partner in others:
            if partner is not call and self.disagreement is None and (what := _disagreement(partner, call)):
                self.disagreement = Disagreement(what, partners)

    # ── questions ──

    def missing(self, rank: int) -> list[int]:
        """The ranks that have not made the call which `rank` waits for: nobody, if the call can complete."""
        call, made = self.ranks[rank].awaited, self._awaited_slot(rank)
        if call["op"] in POINT_TO_POINT:
            return self._missing_peer(rank, call, made)
        return [member for member in call["members"] if member not in made]

    def _awaited_slot(self, rank: int) -> dict[int, dict]:
        """The calls that meet in the one that `rank` waits for, as far as they have been made."""
        return self._slots[self._slot_of[rank, self.ranks[rank].waits_for]]

    def _missing_peer(self, rank: int, call: dict, made: dict[int, dict]) -> list[int]:
        peer = peer_of(call)
        if peer is None:  # any source: one unmatched message is enough
            return [] if self.messages_for(rank) else [m for m in call["members"] if m != rank]
        partner = made.get(peer)
        if partner is not None:
            return [peer] if partner["number"] in self.ranks[peer].dropped else []
        taken_by_any = call["op"] == "send" and any(
            c["op"] == "recv" and c["peer"] is None for c in self.ranks[peer].calls.values())
        return [] if taken_by_any else [peer]

    def dropped_partner(self, rank: int) -> dict | None:
        """The matching call of what `rank` waits for, if it was made and then given up."""
        for partner, call in self._awaited_slot(rank).items():
            if partner != rank and call["number"] in self.ranks[partner].dropped:
                return call
        return None

    def messages_for(self, rank: int) -> list[dict]:
        """Sends to `rank` that no receive of its own names and nobody has given up, by sender."""
        sends = [call for call in self._sends_to[rank]
                 if rank not in self._slots[self._slot_of[call["rank"], call["number"]]]
                 and call["number"] not in self.ranks[call["rank"]].dropped]
        return sorted(sends, key=lambda call: (call["rank"], call["number"]))

    def stuck(self) -> frozenset[int]:
        """The ranks that can never move again, whatever the others do."""
        waiting = frozenset(r for r, s in enumerate(self.ranks) if s.state == BLOCKED)
        movable = {r for r, s in enumerate(self.ranks) if s.state == RUNNING}
        missing = {r: self.missing(r) for r in waiting}
        while freed := {r for r in waiting - movable if self._can_move(r, missing[r], movable)}:
            movable |= freed
        return waiting - movable

    def _can_move(self, rank: int, missing: list[int], movable: set[int]) -> bool:
        call = self.ranks[rank].awaited
        if call["op"] == "recv" and call["peer"] is None:
            return not missing or any(m in movable for m in missing)
        return all(m in movable for m in missing)


AGREED = {  # what must agree -> the fact that tells of it; the first that differs is told
    "message": {"dtype": "dtype", "size": "bytes"},
    "collective": {"operation": "op", "dtype": "dtype", "root": "root", "reduce_op": "reduce_op", "size": "element_count"},
}


def difference(one: dict, other: dict) -> str | None:
    """What differs between two calls that meet, or None. What an all-to-all exchanges is for `splits_fit` to see."""
    for what, fact in AGREED["message" if one["op"] in POINT_TO_POINT else "collective"].items():
        if one[fact] != other[fact]:
            return what
    return "ranks" if one["op"] == "new_group" and one["shape"] != other["shape"] else None


def splits_fit(splits: Sequence[Sequence[Sequence[int]]]) -> bool:
    """Whether each member of an all-to-all sends each other what that expects. splits: of all members, in their order."""
    sent, expected = splits[0]
    if len({*sent, *expected}) == 1 and all(each == splits[0] for each in splits):  # equal shares, as a rule
        return True
    columns = zip(*(expected for _, expected in splits), strict=True)
    return all(sent == list(column) for (sent, _), column in zip(splits, columns, strict=True))


def _disagreement(one: dict, other: dict) -> str | None:
    return difference(one, other) or ("splits" if one["splits"] and not _pair_fits(one, other) else None)


def _pair_fits(one: dict, other: dict) -> bool:
    """Whether what each of the two sends the other is what the other expects."""
    i, j = (_place_of(call["rank"], call["members"]) for call in (one, other))
    return one["splits"][0][j] == other["splits"][1][i] and other["splits"][0][i] == one["splits"][1][j]


def _place_of(rank: int, members: Sequence[int]) -> int:
    """Found at once in the world, where every rank is at its own place."""
    return rank if rank < len(members) and members[rank] == rank else members.index(rank)
