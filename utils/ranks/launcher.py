"""Start fresh ranks, follow what they report, end them: plain data out, whatever happens."""

import socket
import time
from functools import partial
from multiprocessing.connection import wait

from utils.deadlocks.errors import Stopped
from utils.deadlocks.verdicts import waiting_ranks
from utils.deadlocks.waits import ENDED, WaitState
from utils.ranks.apart import run_apart
from utils.ranks.channel import Mailbox
from utils.ranks.fair_clock import FairClock
from utils.ranks.fresh_process import allow_open_files, seed_of
from utils.ranks.job import Job, Outcome, stacks_of
from utils.ranks.live import AGAIN_S, StatusLines
from utils.ranks.output import RankOutput
from utils.ranks.place import LEAVE_S, Place, StartedRank, exit_in_words
from utils.ranks.readiness import Readiness
from utils.ranks.watch import Watch
from utils.ranks.worker import Settings
from utils.trace.spans import HELD_UP
from utils.trace.wire import traffic_matrix

START_UP_S = 60.0
GATHER_S = 0.1  # how long to wait for the other ranks' side of a disagreement
GRACE_AFTER_ERROR_S = 5.0  # how long the others may go on after one rank failed
STACK_ANSWER_S = 1.0


def launch(job: Job, place: Place | None = None, live: StatusLines | None = None) -> Outcome:
    """Run `job` on fresh processes and wait until it is over. No process is left behind, even when interrupted.

    live: shows where the ranks stand, meanwhile.

    Raises: Stopped when interrupted, which tells where the ranks were.
    """
    supervisor = _Supervisor(job, place or Place(), live)
    try:
        run_apart(supervisor.run)  # on a thread of its own: an interrupt cuts nothing there in half
    except KeyboardInterrupt:
        raise supervisor.stopped or KeyboardInterrupt() from None
    return supervisor.outcome


class _Supervisor:
    """The processes of one run, from their start to their end."""

    def __init__(self, job: Job, place: Place, live: StatusLines | None):
        self.job, self._place, self._live = job, place, live
        self.outcome = Outcome(WaitState(job.world_size))
        self._ranks: list[StartedRank] = []
        self._outputs: list[RankOutput] = []
        self._readiness = Readiness()
        self._mailbox = Mailbox(self._readiness, self._on_report, self._note_nonsense)
        self._watch = Watch(self._readiness, self._mailbox, self.outcome.state)
        self._readings: dict[int, dict] = {}
        self._started = time.monotonic()
        self._clock = FairClock(lambda: self._process_ids().values())  # what is given time, has it on a busy machine, too
        self._begun = self._clock.now()
        self._first_error_at: float | None = None
        self._ready: set[int] = set()
        self._asked: set[int] = set()
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
        self._mailbox.open(rank, started.connection)
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
            if self._watch.listen(now, now - self._begun, self._mailbox.next_due(deadline)):
                self.outcome.stuck = self._watch.standstill(self._unfinished(), bool(self.outcome.errors))
                self._show(time.monotonic())
        if self.outcome.state.disagreement:
            self._watch.listen_for(GATHER_S)
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

    def _read_output(self, output: RankOutput) -> None:
        if output.is_error:  # what gloo shouts when the calls do not fit adds nothing
            self._mailbox.read()
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
        for rank in self._mailbox.channels:
            self._mailbox.tell(rank, "task", self.job.task)
            self._mailbox.tell(rank, "input", self.job.inputs[rank])

    def _answer(self, rank: int) -> None:
        """A rank asks for what is kept for it, once. Who is late gets it later than all have asked."""
        if rank in self._asked:
            return
        self._asked.add(rank)
        if not self._late_s(rank):
            self._mailbox.tell(rank, "asked for", self.job.asked_for[rank])
        if len(self._asked) == self.job.world_size:
            for late in filter(self._late_s, self._mailbox.channels):
                self._tell_later(late, "asked for", self.job.asked_for[late])

    def _end_pause(self, rank: int, name: str, facts: dict) -> None:
        if name == HELD_UP:
            self._tell_later(rank, "looked at")
        else:
            self._place.look_at(rank, name, facts)
            self._mailbox.tell(rank, "looked at")

    def _late_s(self, rank: int) -> float:
        return self.job.late_s[rank] if self.job.late_s else 0.0

    def _tell_later(self, rank: int, kind: str, blob: bytes = b"") -> None:
        """By as much as the rank is late: so long the others could go on, however busy the machine is."""
        now = self._clock.now()
        self._mailbox.tell_at(now + self._late_s(rank), time.monotonic(), rank, kind, blob)
        self._tell_what_is_due(now)

    def _tell_what_is_due(self, now: float) -> None:
        for since_s, rank, kind, blob in self._mailbox.due(now):
            if kind == "looked at":  # in the trace as the launcher saw it, before the rank goes on
                facts = {"name": HELD_UP, "time": time.monotonic(), "facts": {"since_s": since_s}}
                self.outcome.events.append((rank, "mark", facts))
            self._mailbox.tell(rank, kind, blob)

    def _process_ids(self) -> dict[int, int]:
        return {rank: started.process.pid for rank, started in enumerate(self._ranks)}

    def _note_error(self, rank: int, facts: dict) -> None:
        self.outcome.errors.append((rank, facts))
        self._first_error_at = self._first_error_at or self._clock.now()

    def _note_nonsense(self, rank: int, error: Exception) -> None:
        self._note_death(rank, f"it sent a report that makes no sense ({error!r:.200})")

    def _note_death(self, rank: int, message: str) -> None:
        self.outcome.state.ingest(rank, "died", {})
        self._note_error(rank, {"type": "died", "message": message, "frames": [], "notes": []})

    def _on_exit(self, rank: int) -> None:
        process = self._ranks[rank].process
        self._readiness.forget(process.sentinel)
        self._mailbox.take_the_rest(rank)
        if self.outcome.state.ranks[rank].state != ENDED:
            process.join(LEAVE_S)
            self._note_death(rank, exit_in_words(process.exitcode))

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
        self._mailbox.read()
        unfinished = self._unfinished()
        for rank in unfinished:
            self._mailbox.tell(rank, "stack")
        self._watch.listen_for(STACK_ANSWER_S, lambda: len(self.outcome.stacks) == len(unfinished))
        unfinished = self._unfinished()
        self.outcome.timed_out = bool(unfinished)  # on a slow machine the last report may come while we ask
        self.outcome.stacks = {rank: self.outcome.stacks.get(rank, []) for rank in unfinished}

    def _read_wires(self) -> None:
        if not self.job.trace:
            return
        self._mailbox.tell_all("settle")
        self._watch.listen_for(LEAVE_S, lambda: len(self._readings) == self.job.world_size)
        self.outcome.observed = self._place.settled()
        if len(self._readings) == self.job.world_size:
            self.outcome.wire_bytes = traffic_matrix([self._readings[rank] for rank in range(self.job.world_size)])

    # ── ending ──

    def _end(self) -> None:
        """Let finished ranks leave, end the others by force, read what is left of their output."""
        self._mailbox.tell_all("leave")
        self._place.end(self._ranks, finished=self._all_returned())
        for output in list(self._outputs):
            self._close_output(output)
        self._mailbox.read()
        self._mailbox.close()
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
