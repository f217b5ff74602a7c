"""Start fresh ranks, follow what they report, end them: plain data out, whatever happens."""

import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import wait

from utils.deadlocks.errors import Stopped
from utils.deadlocks.verdicts import waiting_ranks
from utils.deadlocks.waits import ENDED, WaitState
from utils.ranks.apart import run_apart
from utils.ranks.channel import Channel, Message, give_up_sending_after
from utils.ranks.fair_clock import FairClock
from utils.ranks.fresh_process import allow_open_files, seed_of
from utils.ranks.job import Job, Outcome, stacks_of
from utils.ranks.live import AGAIN_S, Live
from utils.ranks.output import RankOutput
from utils.ranks.place import LEAVE_S, Place, StartedRank, exit_in_words
from utils.ranks.readiness import Readiness
from utils.ranks.worker import Settings
from utils.trace.reports import Unfolding
from utils.trace.spans import HELD_UP
from utils.trace.wire import traffic_matrix

SETTLE_S = 0.25  # a standstill must last this long without any report before it is believed
LONG_SETTLE_S = 3.0  # the same, where a rank that stands still has other threads
SHORT_BATCH_S, BATCH_S = 0.002, 0.04  # how long reports gather: at a run's beginning, and at most
GROWTH = 0.05  # from the one to the other, by each second of the run: a short one is not to wait, a long one not disturbed
QUIET_S, LATEST_S = 0.02, 0.5  # what ranks say of their calls is read when they are quiet for so long, or so often
MOST_UNREAD = 2000
MOST_GATHERED = 100  # reports of a rank: it stands still once the pipe is full, at some 250
ROUNDS = 50
REFILL_S = 0.005  # in which a rank that found its pipe full writes on
START_UP_S = 60.0
GATHER_S = 0.1  # how long to wait for the other ranks' side of a disagreement
GRACE_AFTER_ERROR_S = 5.0  # how long the others may go on after one rank failed
STACK_ANSWER_S = 1.0
SEND_S = 10.0  # in which a rank that still reads its messages has read some of them


def launch(job: Job, place: Place | None = None, live: Live | None = None) -> Outcome:
    """Run `job` on fresh processes and wait until it is over. No process is left behind, even when interrupted.

    live: shows where the ranks stand, meanwhile.

    Raises: Stopped when interrupted, which tells where the ranks were.
    """
    fleet = _Fleet(job, place or Place(), live)
    try:
        run_apart(fleet.run)
    except KeyboardInterrupt:
        raise fleet.stopped or KeyboardInterrupt() from None
    return fleet.outcome


class _Fleet:
    """The processes of one run and the loop that listens to them."""

    def __init__(self, job: Job, place: Place, live: Live | None):
        self.job, self._place, self._live = job, place, live
        self.outcome = Outcome(WaitState(job.world_size))
        self._ranks: list[StartedRank] = []
        self._channels: dict[int, Channel] = {}
        self._unfoldings = [Unfolding() for _ in range(job.world_size)]
        self._outputs: list[RankOutput] = []
        self._readiness = Readiness()
        self._readings: dict[int, dict] = {}
        self._still_since: float | None = None
        self._unread: deque[tuple[int, Message]] = deque()  # (rank, what it says of its calls), in the order of arrival
        self._looked_at = 0.0
        self._unreadable: set[int] = set()  # ranks that sent what makes no sense
        self._gathered = 0  # reports of the rank that had most of them when we looked last
        self._started = time.monotonic()
        self._clock = FairClock(lambda: self._process_ids().values())  # what is given time, has it on a busy machine, too
        self._begun = self._clock.now()
        self._first_error_at: float | None = None
        self._ready: set[int] = set()
        self._asked: set[int] = set()
        self._later: list[tuple[float, float, int, str, bytes]] = []  # (when, by the clock; since; rank; what to tell)
        self._ready_at: float | None = None
        self._handed_out: float | None = None  # the same, by the clock
        self._shown_at = 0.0
        self._interrupted = False
        self.stopped: Stopped | None = None  # where the ranks were when they were interrupted, if they had met

    def run(self, interrupts: socket.socket) -> None:
        """All of it. interrupts: can be read from once somebody interrupts."""
        try:
            allow_open_files(self.job.world_size, self.job.start_method)
            self._readiness.watch(interrupts, partial(self._note_interrupt, interrupts))
            self._start(interrupts)
            self._follow()
            if self._interrupted:
                self.stopped = self._where_ranks_were()
        finally:
            self._end()

    def _note_interrupt(self, interrupts: socket.socket) -> None:
        self._interrupted = True
        self._readiness.forget(interrupts)

    # ── starting ──

    def _start(self, interrupts: socket.socket) -> None:
        meeting_place = self._place.open(self._readiness, self._process_ids)
        surroundings = self._place.surroundings()
        for rank in range(self.job.world_size):
            if wait([interrupts], 0.0):
                return
            seed = None if self.job.seed is None else seed_of(self.job.seed, rank)
            self._start_rank(Settings(rank, self.job.world_size, self.job.backend, meeting_place, self.job.trace,
                                      self.job.memory, self.job.machinery, surroundings, seed))

    def _start_rank(self, settings: Settings) -> None:
        rank = settings.rank
        started = self._place.start(settings, self.job.start_method, self.job.preload)
        self._ranks.append(started)
        self._channels[rank] = Channel(started.connection)
        give_up_sending_after(SEND_S, started.connection)
        self._readiness.watch(started.connection, partial(self._take_messages, rank))
        for pipe, is_error in ((started.stdout, False), (started.stderr, True)):
            output = RankOutput(rank, pipe, is_error, muted=not self.job.show_output)
            self._outputs.append(output)
            self._readiness.watch(pipe, partial(self._read_output, output))
        self._readiness.watch(started.process.sentinel, partial(self._on_exit, rank))

    # ── following ──

    def _follow(self) -> None:
        """Listen until every rank has ended, none can move, ranks disagree, time is up, or somebody interrupts."""
        while not self._over():
            now, deadline = self._clock.now(), self._deadline()
            if now > deadline:
                self._ask_for_stacks()
                if self.outcome.timed_out:
                    return
                continue
            if self._first_error_at and now > self._first_error_at + GRACE_AFTER_ERROR_S:
                return
            self._tell_what_is_due(now)
            until = min([deadline, *(when for when, *_ in self._later)])
            patience_s = min(QUIET_S if self._unread else 0.1, max(0.0, until - now))
            if not self._listen(patience_s, self._batch_s(now - self._begun)) or now > self._looked_at + LATEST_S:
                self._looked_at = now
                self._read_reports()
                self._look_for_standstill()
                self._show(time.monotonic())
        if self.outcome.state.disagreement:
            self._listen_for(GATHER_S)
        if self._all_returned():
            self._read_wires()

    def _deadline(self) -> float:
        """The clock starts when all ranks have met, which can take seconds on a loaded machine. Who is late has as long."""
        started = self._begun + START_UP_S if self._handed_out is None else self._handed_out
        return started + max(self.job.late_s, default=0.0) + self.job.timeout_s

    def _over(self) -> bool:
        return bool(self.outcome.stuck or self.outcome.state.disagreement or self._interrupted or not self._unfinished())

    def _unfinished(self) -> list[int]:
        return [rank for rank, stands in enumerate(self.outcome.state.ranks) if stands.state != ENDED]

    def _all_returned(self) -> bool:
        return len(self.outcome.blobs) == self.job.world_size

    def _batch_s(self, age_s: float) -> float:
        gathered, self._gathered = self._gathered, 0
        return SHORT_BATCH_S if gathered > MOST_GATHERED else min(BATCH_S, SHORT_BATCH_S + GROWTH * age_s)

    def _listen(self, timeout_s: float, batch_s: float = SHORT_BATCH_S) -> bool:
        """Whether there was anything to hear within `timeout_s`."""
        if not self._is_amid():
            time.sleep(batch_s)  # let reports gather: waking up for each would take the ranks' time on a small machine
        if not self._readiness.handle(timeout_s):
            return False
        for _ in range(ROUNDS):  # not for ever: a flood must not hide the deadline
            if not self._readiness.handle(REFILL_S if self._is_amid() else 0.0):
                break
        return True

    def _is_amid(self) -> bool:
        """Whether a large result is on its way, and a rank waits for room in its pipe."""
        return any(channel.is_amid for channel in self._channels.values())

    def _listen_for(self, seconds: float, done: Callable[[], bool] = lambda: False) -> None:
        patience = time.monotonic() + seconds
        while not done() and (left := patience - time.monotonic()) > 0:
            self._listen(left)
        self._read_reports()

    def _take_messages(self, rank: int) -> bool:
        """False at the end of the rank's messages."""
        try:
            for gathered, message in enumerate(self._channels[rank].arrivals()):
                self._still_since, self._gathered = None, max(gathered, self._gathered)
                self._unread.append((rank, message))
                if not message.can_wait or len(self._unread) > MOST_UNREAD:
                    self._read_reports()
        except (EOFError, OSError):
            self._readiness.forget(self._channels[rank].connection)
            return False
        except ValueError as error:
            self._read_reports()  # what came before made sense
            self._note_nonsense(rank, error)
        return rank not in self._unreadable

    def _read_reports(self) -> None:
        """Not as each arrives: between two calls of a rank there is time for little, and many in a row are read faster."""
        while self._unread:
            rank, message = self._unread.popleft()
            if rank not in self._unreadable:
                try:
                    for kind, fields in self._unfoldings[rank].whole(*message.read()):
                        self._on_report(rank, kind, fields, message.blob)
                except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                    self._note_nonsense(rank, error)

    def _read_output(self, output: RankOutput) -> None:
        if output.is_error:  # what gloo shouts when the calls do not fit adds nothing
            self._read_reports()
            output.muted |= self.outcome.state.disagreement is not None
        if not output.read():
            self._close_output(output)

    def _on_report(self, rank: int, kind: str, fields: dict, blob: bytes) -> None:
        if not isinstance(fields.get("time", 0.0), int | float):
            raise TypeError(f"{fields['time']!r} is no time")
        if kind == "mark" and fields["name"] == HELD_UP:
            raise ValueError(f"that a rank is {HELD_UP} is not for it to say")
        if kind == "memory":
            self.outcome.memory[rank] = fields
        elif kind == "stack":
            self.outcome.stacks[rank] = fields["frames"]
        elif kind == "pause":
            self._end_pause(rank, str(fields["name"]), dict(fields["facts"]))
        elif kind == "wire":
            self._readings[rank] = fields
        elif kind == "ready":
            self._ready.add(rank)
            if len(self._ready) == self.job.world_size:
                self._hand_out()
        elif kind == "asks":
            self._answer(rank)
        else:
            self.outcome.state.ingest(rank, kind, fields)
            self.outcome.events.append((rank, kind, fields))
        if kind == "returned":
            self.outcome.blobs[rank] = blob
        elif kind == "raised":
            self._note_error(rank, fields)

    def _hand_out(self) -> None:
        """All have met: count the wire from here, and give each rank the task and its own input."""
        self._ready_at, self._handed_out = time.monotonic(), self._clock.now()
        self._place.all_met()
        for rank in self._channels:
            self._tell(rank, "task", self.job.task)
            self._tell(rank, "input", self.job.inputs[rank])

    def _answer(self, rank: int) -> None:
        """A rank asks for what is kept for it, once. Who is late gets it later than all have asked."""
        if rank in self._asked:
            return
        self._asked.add(rank)
        if not self._late_s(rank):
            self._tell(rank, "asked for", self.job.asked_for[rank])
        if len(self._asked) == self.job.world_size:
            for late in filter(self._late_s, self._channels):
                self._tell_later(late, "asked for", self.job.asked_for[late])

    def _end_pause(self, rank: int, name: str, facts: dict) -> None:
        if name == HELD_UP:
            self._tell_later(rank, "looked at")
        else:
            self._place.look_at(rank, name, facts)
            self._tell(rank, "looked at")

    def _late_s(self, rank: int) -> float:
        return self.job.late_s[rank] if self.job.late_s else 0.0

    def _tell_later(self, rank: int, kind: str, blob: bytes = b"") -> None:
        """By as much as the rank is late: so long the others could go on, however busy the machine is."""
        now = self._clock.now()
        self._later.append((now + self._late_s(rank), time.monotonic(), rank, kind, blob))
        self._tell_what_is_due(now)

    def _tell_what_is_due(self, now: float) -> None:
        due = [one for one in self._later if one[0] <= now]
        self._later = [one for one in self._later if one[0] > now]
        for _, since_s, rank, kind, blob in due:
            if kind == "looked at":  # in the trace as the launcher saw it
                facts = {"name": HELD_UP, "time": time.monotonic(), "facts": {"since_s": since_s}}
                self.outcome.events.append((rank, "mark", facts))
            self._tell(rank, kind, blob)

    def _process_ids(self) -> dict[int, int]:
        return {rank: started.process.pid for rank, started in enumerate(self._ranks)}

    def _note_error(self, rank: int, facts: dict) -> None:
        self.outcome.errors.append((rank, facts))
        self._first_error_at = self._first_error_at or self._clock.now()

    def _note_nonsense(self, rank: int, error: Exception) -> None:
        self._unreadable.add(rank)
        self._readiness.forget(self._channels[rank].connection)
        self._note_death(rank, f"it sent a report that makes no sense ({error!r:.200})")

    def _note_death(self, rank: int, message: str) -> None:
        self.outcome.state.ingest(rank, "died", {})
        self._note_error(rank, {"type": "died", "message": message, "frames": [], "notes": []})

    def _on_exit(self, rank: int) -> None:
        process, connection = self._ranks[rank].process, self._channels[rank].connection
        self._readiness.forget(process.sentinel)
        while connection.poll(0) and self._take_messages(rank):
            pass
        self._read_reports()
        if self.outcome.state.ranks[rank].state != ENDED:
            process.join(LEAVE_S)
            self._note_death(rank, exit_in_words(process.exitcode))

    def _look_for_standstill(self) -> None:
        """Believe a standstill once it has lasted, with nothing more to read."""
        stuck = self.outcome.state.stuck()
        if not stuck:
            self._still_since = None
        elif self._still_since is None:
            self._still_since = time.monotonic()
        elif time.monotonic() - self._still_since > (SETTLE_S if self._are_alone(stuck) else LONG_SETTLE_S):
            self._readiness.handle(0.0)
            nobody_moves = stuck.issuperset(self._unfinished())
            # after an error the others may finish, so that every rank's error is collected
            if self._still_since and (nobody_moves or not self.outcome.errors):
                self.outcome.stuck = stuck

    def _are_alone(self, ranks: frozenset[int]) -> bool:
        return all(self.outcome.state.ranks[rank].alone for rank in ranks)

    def _show(self, now: float) -> None:
        if self._live and self._ready_at is not None and now >= self._shown_at + AGAIN_S:
            self._shown_at = now
            self._live.look(self.outcome.state, now - self._ready_at)

    def _where_ranks_were(self) -> Stopped | None:
        """What to tell whoever interrupts; None where the ranks had not met yet."""
        if self._ready_at is None:
            return None
        self._ask_for_stacks()
        return Stopped(stacks_of(self.outcome), waiting_ranks(self.outcome.state))

    def _ask_for_stacks(self) -> None:
        self._read_reports()
        unfinished = self._unfinished()
        for rank in unfinished:
            self._tell(rank, "stack")
        self._listen_for(STACK_ANSWER_S, lambda: len(self.outcome.stacks) == len(unfinished))
        unfinished = self._unfinished()
        self.outcome.timed_out = bool(unfinished)  # on a slow machine the last report may come while we ask
        self.outcome.stacks = {rank: self.outcome.stacks.get(rank, []) for rank in unfinished}

    def _read_wires(self) -> None:
        if not self.job.trace:
            return
        for rank in self._channels:
            self._tell(rank, "settle")
        self._listen_for(LEAVE_S, lambda: len(self._readings) == self.job.world_size)
        self.outcome.observed = self._place.settled()
        if len(self._readings) == self.job.world_size:
            self.outcome.wire_bytes = traffic_matrix([self._readings[rank] for rank in range(self.job.world_size)])

    # ── ending ──

    def _end(self) -> None:
        """Let finished ranks leave, end the others by force, read what is left of their output."""
        for rank in self._channels:
            self._tell(rank, "leave")
        self._place.end(self._ranks, finished=self._all_returned())
        for output in list(self._outputs):
            self._close_output(output)
        self._read_reports()
        for channel in self._channels.values():
            channel.connection.close()
        self._readiness.close()
        self._place.close()
        now = time.monotonic()
        if self._live and self._ready_at is not None:
            self._live.end(self.job.world_size, now - self._ready_at)
        self.outcome.elapsed_s, self.outcome.starved_s = now - self._started, self._clock.starved_s
        self.outcome.verdict_s = now - max((f["time"] for _, _, f in self.outcome.events if "time" in f), default=now)

    def _close_output(self, output: RankOutput) -> None:
        self._outputs.remove(output)
        self._readiness.forget(output.pipe)
        output.finish()
        self.outcome.output.setdefault(output.rank, []).extend(output.kept)

    def _tell(self, rank: int, kind: str, blob: bytes = b"") -> None:
        with contextlib.suppress(OSError, ValueError):
            self._channels[rank].send(kind, blob)
