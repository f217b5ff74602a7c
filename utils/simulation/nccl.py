"""What gloo takes and NCCL does not: messages that stand in each other's way, receives from anybody, dtypes, reductions.

NCCL carries out a rank's messages with one peer one after the other, each to its end, those that began in one
batch_isend_irecv together, and pairs them by order alone, without tags. Batches go in order with the group's collectives.
Source: NCCL's user guide, "Point-to-point communication"; torch's ProcessGroupNCCL::pointToPoint.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs

from utils.deadlocks.errors import ranks_in_words
from utils.simulation.program import CALL, WAIT, Program
from utils.trace.calls import POINT_TO_POINT, CallFacts
from utils.trace.pairing import Meeting, PairingBook
from utils.trace.source import to_line

_OTHER_DTYPES = frozenset({"int16", "uint16", "uint32", "uint64", "complex64", "complex128"})
_OTHER_REDUCTIONS = frozenset({"BAND", "BOR", "BXOR"})
_FROM_ANYBODY = "receive from anybody, so a recv needs its src"


def nccl_oversights(programs: Sequence[Program]) -> list[str]:
    """Of programs that end on gloo: a line for each kind of call that NCCL would not carry out."""
    lacks = _lacks(programs)
    lines = [f"Note: NCCL has no {what} ({_place(facts)})." for what, facts in lacks.items()]
    if _FROM_ANYBODY not in lacks and (stuck := _waiting_for_ever(programs)):
        rank, facts = stuck[0]
        lines.append(f"Note: on GPUs {ranks_in_words([rank for rank, _ in stuck])} may wait for ever, from rank {rank}'s "
                     f"{facts.op} on: NCCL ends one message between two ranks before it begins the next. Put those that "
                     f"must go at the same time into one dist.batch_isend_irecv ({_place(facts)}).")
    return lines


def _lacks(programs: Sequence[Program]) -> dict[str, CallFacts]:
    """What these programs use and NCCL does not have, each with the first call that does."""
    lacks: dict[str, CallFacts] = {}
    for program in programs:
        for facts in program.facts:
            if facts.is_from_anybody:
                lacks.setdefault(_FROM_ANYBODY, facts)
            if facts.dtype in _OTHER_DTYPES:
                lacks.setdefault(f"messages of {facts.dtype}", facts)
            if facts.reduce_op in _OTHER_REDUCTIONS:
                lacks.setdefault(f"reduction by {facts.reduce_op}", facts)
    return lacks


def _place(facts: CallFacts) -> str:
    return str(to_line(facts.source) or facts.op)


# ── in order ──


@dataclass(slots=True, eq=False)
class _Launch:
    """Calls of one rank that begin together. left: how many of them have not been carried out."""

    rank: int
    lane: tuple
    facts: CallFacts | None
    meetings: list[Meeting] = field(default_factory=list)
    left: int = 0


class _Streams:
    """All ranks' programs, as NCCL would carry them out: a launch begins when those before it in its lane have ended.

    A wait holds up all that its rank launches later. Times do not matter for who waits for ever.
    """

    def __init__(self, programs: Sequence[Program]):
        self._programs = programs
        self._book = PairingBook(at_once=True)
        self._at = [0] * len(programs)
        self._launches: list[list[_Launch]] = [[] for _ in programs]  # by rank and number of the call
        self._lanes: dict[tuple, deque[_Launch]] = defaultdict(deque)
        self._begun: dict[Meeting, list[_Launch]] = defaultdict(list)
        self._parked: dict[int, _Launch] = {}

    def run(self) -> None:
        todo = deque(range(len(self._programs)))
        while todo:
            todo.extend(self._advance(todo.popleft()))

    def _advance(self, rank: int) -> list[int]:
        """Until its program ends or has to wait.  Returns: the ranks that can now go on."""
        program, launches, freed = self._programs[rank], self._launches[rank], []
        ends_of_batches = dict(program.batches)
        batch, batch_end = None, -1
        for at in range(self._at[rank], len(program.kinds)):
            if batch is not None and at >= batch_end:
                freed += self._launch(batch)
                batch = None
            if at in ends_of_batches:
                batch_end = ends_of_batches[at]
                batch = _Launch(rank, (), None)
            if program.kinds[at] == CALL:
                facts = program.facts[int(program.values[at])]
                launch = batch or _Launch(rank, self._lane(rank, facts), facts)
                if batch is not None and batch.facts is None:
                    batch.facts, batch.lane = facts, (rank, facts.group)
                launches.append(launch)
                if facts.op != "new_group":
                    untagged = structs.replace(facts, tag=0) if facts.tag else facts
                    launch.meetings.append(self._book.post(rank, len(launches) - 1, untagged))
                    launch.left += 1
                if batch is None:
                    freed += self._launch(launch)
            elif program.kinds[at] == WAIT and launches[int(program.values[at])].left:
                self._at[rank], self._parked[rank] = at, launches[int(program.values[at])]
                return freed
        if batch is not None:
            freed += self._launch(batch)
        self._at[rank] = len(program.kinds)
        return freed

    def _lane(self, rank: int, facts: CallFacts) -> tuple:
        if facts.op in POINT_TO_POINT:
            return rank, facts.group, facts.peer
        return rank, facts.group

    def _launch(self, launch: _Launch) -> list[int]:
        if not launch.left:
            return []
        lane = self._lanes[launch.lane]
        lane.append(launch)
        freed, ready = [], [launch] if lane[0] is launch else []
        while ready:
            begun = ready.pop()
            for meeting in begun.meetings:
                together = self._begun[meeting]
                together.append(begun)
                if len(together) == meeting.wanted:
                    for done in self._begun.pop(meeting):
                        done.left -= 1
                        if not done.left:
                            freed += self._end(done, ready)
        return freed

    def _end(self, launch: _Launch, ready: list[_Launch]) -> list[int]:
        lane = self._lanes[launch.lane]
        lane.popleft()
        if lane:
            ready.append(lane[0])
        if self._parked.get(launch.rank) is launch:
            del self._parked[launch.rank]
            return [launch.rank]
        return []

    def waiting(self) -> list[tuple[int, CallFacts]]:
        """Ranks that wait for ever, by number, each with the first call in the lane of the one that it waits for."""
        return [(rank, self._lanes[launch.lane][0].facts) for rank, launch in sorted(self._parked.items())]


def _waiting_for_ever(programs: Sequence[Program]) -> list[tuple[int, CallFacts]]:
    """Ranks that would, each with the call that holds it up."""
    if not any(facts.op in POINT_TO_POINT for program in programs for facts in program.facts):
        return []
    streams = _Streams(programs)
    streams.run()
    return streams.waiting()
