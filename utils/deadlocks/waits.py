"""The wait-for state of a run: who has called what, who stands where, and whether anyone can still move.

A pure bookkeeper: it is told each rank's reports in order and never looks at a clock.
A blocked rank can move if the partners of the call it waits for have made theirs, or could still come to make it.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from utils.trace.calls import POINT_TO_POINT, ROOTED
from utils.trace.matching import Matcher

RUNNING, BLOCKED, ENDED = "running", "blocked", "ended"


@dataclass
class RankState:
    """Where one rank stands."""

    state: str = RUNNING
    waits_for: int | None = None  # call number
    wait_source: list | None = None
    implicit: bool = False
    calls: dict[int, dict] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)  # sends and receives given up: their Work was thrown away
    ending: str = ""  # "returned", "raised", "died"


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

    # ── reports ──

    def ingest(self, rank: int, kind: str, fields: dict) -> None:
        """Take in one report of one rank."""
        state = self.ranks[rank]
        if kind == "call":
            self._on_call(rank, dict(fields, rank=rank))
        elif kind == "wait":
            if fields["alone"]:
                state.state, state.waits_for = BLOCKED, fields["number"]
                state.wait_source, state.implicit = fields["source"], fields.get("implicit", False)
        elif kind == "dropped":
            state.dropped.add(fields["number"])
        elif kind == "woke":
            state.state, state.waits_for = RUNNING, None
        elif kind in ("returned", "raised", "died"):
            state.ending = kind
        if state.ending:  # for good, whatever its other threads still do
            state.state, state.waits_for = ENDED, None

    def _on_call(self, rank: int, call: dict) -> None:
        state = self.ranks[rank]
        state.state, state.waits_for, state.implicit = RUNNING, None, False
        state.calls[call["number"]] = call
        key = self._matcher.key(rank, call)
        self._slot_of[rank, call["number"]] = key
        if call.get("waits") and call["alone"]:
            state.state, state.waits_for, state.wait_source = BLOCKED, call["number"], call["source"]
        partners = self._slots[key]
        self._slots[key][rank] = call
        for other in list(partners.values()):
            if other["rank"] != rank and self.disagreement is None:
                what = _disagreement(other, call)
                if what:
                    self.disagreement = Disagreement(what, partners)

    # ── questions ──

    def missing(self, rank: int, number: int) -> list[int]:
        """The ranks whose matching call has not been made: nobody, if the call can complete."""
        call, key = self.ranks[rank].calls[number], self._slot_of[rank, number]
        if call["op"] in POINT_TO_POINT:
            return self._missing_peer(rank, call, key)
        return [member for member in call["members"] if member not in self._slots[key]]

    def _missing_peer(self, rank: int, call: dict, key: Any) -> list[int]:
        if call["op"] == "recv" and call["peer"] is None:  # any source: one unmatched message is enough
            return [] if self.messages_for(rank) else [m for m in call["members"] if m != rank]
        peer = call["members"][call["peer"]]
        partner = self._slots[key].get(peer)
        if partner is not None:
            return [peer] if partner["number"] in self.ranks[peer].dropped else []
        taken_by_any = call["op"] == "send" and any(
            c["op"] == "recv" and c["peer"] is None for c in self.ranks[peer].calls.values())
        return [] if taken_by_any else [peer]

    def dropped_partner(self, rank: int) -> dict | None:
        """The matching call of what `rank` waits for, if it was made and then given up."""
        key = self._slot_of[rank, self.ranks[rank].waits_for]
        for other, call in self._slots[key].items():
            if other != rank and call["number"] in self.ranks[other].dropped:
                return call
        return None

    def messages_for(self, rank: int) -> list[dict]:
        """Sends to `rank` that no receive of its own names."""
        found = []
        for sender, state in enumerate(self.ranks):
            for number, call in state.calls.items():
                to_me = call["op"] == "send" and call["members"][call["peer"]] == rank
                if to_me and rank not in self._slots[self._slot_of[sender, number]]:
                    found.append(call)
        return found

    def stuck(self) -> frozenset[int]:
        """The ranks that can never move again, whatever the others do."""
        waiting = {r: s for r, s in enumerate(self.ranks) if s.state == BLOCKED}
        movable = {r for r, s in enumerate(self.ranks) if s.state == RUNNING}
        missing = {r: self._blockers(r, s) for r, s in waiting.items()}
        while True:
            freed = {r for r, m in missing.items() if r not in movable and self._can_move(r, m, movable)}
            if not freed:
                return frozenset(set(waiting) - movable)
            movable |= freed

    def _blockers(self, rank: int, state: RankState) -> list[int]:
        return self.missing(rank, state.waits_for)

    def _can_move(self, rank: int, missing: list[int], movable: set[int]) -> bool:
        call = self.ranks[rank].calls[self.ranks[rank].waits_for]
        if call["op"] == "recv" and call["peer"] is None:
            return not missing or any(m in movable for m in missing)
        return all(m in movable for m in missing)


def _disagreement(one: dict, other: dict) -> str | None:
    """What differs between two calls that meet, or None."""
    if one["op"] in POINT_TO_POINT:
        if one["op"] == other["op"]:
            return None
        return "dtype" if one["dtype"] != other["dtype"] else "size" if one["bytes"] != other["bytes"] else None
    if one["op"] != other["op"]:
        return "operation"
    if one["op"] == "new_group" and one["shape"] != other["shape"]:
        return "ranks"
    if one["dtype"] != other["dtype"]:
        return "dtype"
    if one["op"] in ROOTED and one["root"] != other["root"]:
        return "root"
    if one["reduce_op"] != other["reduce_op"]:
        return "reduce_op"
    if one["element_count"] != other["element_count"]:
        return "size"
    return "splits" if one["splits"] and not _splits_fit(one, other) else None


def _splits_fit(one: dict, other: dict) -> bool:
    """Whether what each sends the other is what the other expects."""
    i, j = one["members"].index(one["rank"]), other["members"].index(other["rank"])
    return one["splits"][0][j] == other["splits"][1][i] and other["splits"][0][i] == one["splits"][1][j]
