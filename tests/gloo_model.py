"""A small model of gloo: what ranks do, step by step, in a random order of arrival, and what they would report of it."""

import random
from collections import defaultdict, deque
from dataclasses import dataclass, field

from utils.trace.calls import CallFacts

# A step: ("send", peer, tag), ("recv", peer or None, tag), ("all_reduce" or "barrier", group), ("wait", call).


@dataclass(frozen=True)
class Script:
    """What each rank's main thread does, and what other threads of some ranks do; groups by name."""

    steps: list[list[tuple]]
    threads: dict[int, list[tuple]]
    groups: dict[str, list[int]]


def facts_of(step: tuple, script: Script, **about: bool) -> CallFacts:
    """A call as a recorder tells of it."""
    is_message = step[0] in ("send", "recv")
    group = "0" if is_message else step[1]
    return CallFacts(
        op=step[0], dtype="float32", shape=[4], element_count=4, bytes=16, bytes_given=16, bytes_formula=16,
        peer=step[1] if is_message else None, tag=step[2] if is_message else 0, group=group, members=script.groups[group],
        is_async=is_message, **about)


@dataclass
class Thread:
    """One thread of a rank. numbers: of its own calls, as the rank counts them."""

    rank: int
    steps: list[tuple]
    is_main: bool
    at: int = 0
    numbers: list[int] = field(default_factory=list)
    awaited: int | None = None

    @property
    def has_ended(self) -> bool:
        return self.at == len(self.steps) and self.awaited is None


class Machine:
    """Plays a script in one random order. reports: (rank, kind, fields), as recorders would send them, in order of time."""

    def __init__(self, script: Script, rng: random.Random):
        n = len(script.steps)
        self._script, self._rng = script, rng
        self._threads = [Thread(rank, steps, True) for rank, steps in enumerate(script.steps)]
        self._threads += [Thread(rank, steps, False) for rank, steps in script.threads.items()]
        self._calls = [0] * n
        self._under_way: dict[tuple[int, int], deque] = defaultdict(deque)  # (sender, receiver) -> its announced messages
        self._arrived: dict[tuple[int, int], list] = defaultdict(list)  # (receiver, tag) -> (sender, number)
        self._posted: dict[tuple[int, int], list] = defaultdict(list)  # the same -> (peer or None, number)
        self._came: dict[tuple[str, int], set] = defaultdict(set)
        self._made: dict[tuple[int, str], int] = defaultdict(int)
        self._meets_in: dict[tuple[int, int], tuple[str, int]] = {}
        self._through: set[tuple[int, int]] = set()
        self._senders: dict[tuple[int, int], int] = {}
        self._returned: set[int] = set()
        self._time = 0.0
        self._unsaid: list[list] = [[] for _ in range(n)]  # what goes with the next report
        self.reports: list[tuple[int, str, dict]] = []
        while moves := self._moves():
            rng.choice(moves)()
            self._time += 1.0
        self.reports += [report for unsaid in self._unsaid for report in unsaid]

    @property
    def standing(self) -> frozenset[int]:
        return frozenset(thread.rank for thread in self._threads if not thread.has_ended)

    def _moves(self) -> list:
        returning = [rank for rank in range(len(self._calls)) if rank not in self.standing | self._returned]
        moves = [lambda rank=rank: self._return(rank) for rank in returning]
        moves += [lambda ends=ends: self._arrive(*ends) for ends, messages in self._under_way.items() if messages]
        return moves + [lambda thread=thread: self._step(thread) for thread in self._threads
                        if not thread.has_ended and (thread.awaited is None or self._is_through(thread))]

    def _is_through(self, thread: Thread) -> bool:
        call = thread.rank, thread.awaited
        if call in self._meets_in:
            return self._came[self._meets_in[call]] == {*self._script.groups[self._meets_in[call][0]]}
        return call in self._through

    def _step(self, thread: Thread) -> None:
        rank = thread.rank
        if thread.awaited is not None:
            sender = self._senders.get((rank, thread.awaited))
            about = {"number": thread.awaited, "time": self._time} | ({} if sender is None else {"sender": sender})
            self._unsaid[rank].append((rank, "woke" if thread.is_main else "waited", about))
            thread.awaited = None
        elif thread.steps[thread.at][0] == "wait":
            thread.awaited = thread.numbers[thread.steps[thread.at][1]]
            thread.at += 1
            if thread.is_main:
                self._report(rank, "wait", number=thread.awaited, alone=self._is_alone(rank), source=None)
        else:
            self._call(thread, thread.steps[thread.at])
            thread.at += 1

    def _return(self, rank: int) -> None:
        """Once its other threads have ended: a program waits for them."""
        self._returned.add(rank)
        self._report(rank, "returned")

    def _is_alone(self, rank: int) -> bool:
        return all(thread.is_main or thread.rank != rank or thread.has_ended for thread in self._threads)

    def _report(self, rank: int, kind: str, **fields) -> None:
        self.reports += [*self._unsaid[rank], (rank, kind, fields)]
        self._unsaid[rank] = []

    def _call(self, thread: Thread, step: tuple) -> None:
        rank, number = thread.rank, self._calls[thread.rank]
        self._calls[rank] += 1
        thread.numbers.append(number)
        waits = step[0] not in ("send", "recv")
        facts = facts_of(step, self._script, waits=waits and thread.is_main, alone=self._is_alone(rank))
        self._report(rank, "call", number=number, time=self._time, facts=facts)
        if waits:
            key = step[1], self._made[rank, step[1]]
            self._made[rank, step[1]] += 1
            self._came[key].add(rank)
            self._meets_in[rank, number] = key
            thread.awaited = number
        elif step[0] == "send":
            self._under_way[rank, step[1]].append((number, step[2]))
        else:
            self._receive(rank, number, step[1], step[2])

    def _receive(self, rank: int, number: int, peer: int | None, tag: int) -> None:
        for at, (sender, sent) in enumerate(self._arrived[rank, tag]):
            if peer in (None, sender):
                del self._arrived[rank, tag][at]
                return self._carry(sender, sent, rank, number, peer)
        self._posted[rank, tag].append((peer, number))

    def _arrive(self, sender: int, receiver: int) -> None:
        """Gloo offers it to receives that name the sender, then to those from anybody."""
        sent, tag = self._under_way[sender, receiver].popleft()
        posted = self._posted[receiver, tag]
        for wanted in (sender, None):
            for at, (peer, number) in enumerate(posted):
                if peer == wanted:
                    del posted[at]
                    return self._carry(sender, sent, receiver, number, peer)
        self._arrived[receiver, tag].append((sender, sent))

    def _carry(self, sender: int, sent: int, receiver: int, received: int, peer: int | None) -> None:
        self._through |= {(sender, sent), (receiver, received)}
        if peer is None:
            self._senders[receiver, received] = sender
