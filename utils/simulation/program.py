"""What one rank does, recorded once with tensors that have shapes and no numbers."""

import io
import signal
from array import array
from collections.abc import Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from msgspec import structs
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_map_only

from utils.ranks.error_facts import describe_error
from utils.ranks.fresh_process import draw_anew, name_rank, seed_of
from utils.ranks.payload import pack
from utils.simulation.cluster import Device
from utils.simulation.exchange import Exchange, Key, Numbers
from utils.simulation.fresh import forget_meshes, own_copy, put_back, settings_found
from utils.simulation.group import SimulatedGroup
from utils.simulation.numbers import UnknownNumber
from utils.simulation.refusals import refusal_in, refused
from utils.simulation.roofline import Roofline, Work
from utils.simulation.shapes import ShapesOnly
from utils.simulation.stand_ins import BATCH, put_in_place
from utils.trace.calls import CallFacts
from utils.trace.recorder import Recorder
from utils.trace.spans import RECORDER
from utils.trace.traced_group import start_recording

COMPUTE, CALL, WAIT = range(3)


@dataclass
class Program:
    """The steps of one rank, in order: kinds[i] with a value.

    COMPUTE: seconds. CALL: which of `facts` (calls are numbered from 0, as they come). WAIT: the number of the call.
    spans, marks: names with positions in the steps (before which step they begin, end or are).
    batches: between which steps calls began together, in one batch_isend_irecv.
    drops: before which step the Works of which messages are thrown away.
    told, missed: numbers that it gave others, and those that it would have received had they been known.
    was_given_unknown: whether .item() has given it a number that nobody knew.
    printed: what it wrote to sys.stdout and to sys.stderr.
    process_bytes: the most memory that the process which recorded it has taken (of its last program; else 0).
    """

    rank: int
    kinds: bytearray = field(default_factory=bytearray)
    values: array = field(default_factory=lambda: array("d"))
    facts: list[CallFacts] = field(default_factory=list)
    wait_sources: dict[int, list | None] = field(default_factory=dict)
    spans: list[tuple[str, int, int]] = field(default_factory=list)
    marks: list[tuple[str, int, dict]] = field(default_factory=list)
    batches: list[tuple[int, int]] = field(default_factory=list)
    drops: dict[int, list[int]] = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    memory: dict[str, Any] = field(default_factory=dict)
    told: dict[Key, Numbers] = field(default_factory=dict)
    missed: set[Key] = field(default_factory=set)
    was_given_unknown: bool = False
    printed: tuple[str, str] = ("", "")
    process_bytes: int = 0
    result: bytes = b""
    error: dict[str, Any] | None = None


class StepRecorder:
    """Takes a recorder's reports and turns them into a program. Its clock tells positions, not times."""

    def __init__(self, program: Program, work: Work):
        self.program, self._work = program, work
        self._seconds_taken = 0.0
        self._facts_at: dict[int, tuple[int, bool]] = {}  # the recorder's id -> place in the program's facts, waits

    def position(self) -> int:
        """Before which step we are; what has been computed since the last step becomes one."""
        seconds = self._work.seconds - self._seconds_taken
        if seconds > 0:
            self._seconds_taken = self._work.seconds
            self._step(COMPUTE, seconds)
        return len(self.program.kinds)

    def report(self, kind: str, _blob: bytes = b"", **fields: Any) -> None:
        """What the recorder says."""
        if kind == "batch":
            for part, facts in fields["items"]:
                self.report(part, **facts)
        elif kind == "facts":
            self._facts_at[fields["id"]] = len(self.program.facts), fields["facts"].waits
            self.program.facts.append(structs.replace(fields["facts"], waits=False))  # a wait is a step of its own
        elif kind == "call":
            self._call(fields["number"], fields["facts"])
        elif kind == "wait":
            self._wait(fields["number"], fields["source"])
        elif kind == "waited":
            self._wait(fields["number"], None)
        elif kind == "dropped":
            self.program.drops.setdefault(fields["time"], []).append(fields["number"])
        elif kind == "span" and fields["name"] == BATCH:
            self.program.batches.append((fields["start"], fields["end"]))
        elif kind == "span":
            self.program.spans.append((fields["name"], fields["start"], fields["end"]))
        elif kind == "mark":
            self.program.marks.append((fields["name"], fields["time"], fields["facts"]))

    def _call(self, number: int, known_as: int) -> None:
        at, waits = self._facts_at[known_as]
        self._step(CALL, at)
        if waits:
            self._wait(number, self.program.facts[at].source)

    def _wait(self, number: int, source: list | None) -> None:
        self.position()
        self.program.wait_sources[len(self.program.kinds)] = source
        self._step(WAIT, number)

    def _step(self, kind: int, value: float) -> None:
        self.program.kinds.append(kind)
        self.program.values.append(value)


class EndlessProgram(BaseException):
    """A rank's program has not ended in its time. Not an Exception: the program may catch those."""


class RankRecorder:
    """Records ranks in this process, which does nothing else. task: a packed NotebookTask; each rank has a copy of it."""

    def __init__(self, task: bytes, world_size: int, device: Device, timeout_s: float):
        self._task, self._world_size, self._device, self._timeout_s = task, world_size, device, timeout_s
        self._found = settings_found()
        self._known: dict[tuple, Any] = {}
        self._recorder = Recorder(lambda kind, **fields: None)
        put_in_place()
        start_recording(self._recorder, SimulatedGroup)
        RECORDER.set(self._recorder)

    def record(self, rank: int, input_blob: bytes, known: Mapping[Key, Numbers]) -> Program:
        """One rank, from the meeting to its return. known: what others have told."""
        shapes_only = SimulatedGroup.shapes = ShapesOnly(self._known)
        exchange = SimulatedGroup.exchange = Exchange(rank, known)
        roofline = Roofline(self._device, shapes_only)
        program = Program(rank, work=roofline.work, told=exchange.told, missed=exchange.missed)
        steps = StepRecorder(program, roofline.work)
        dist.init_process_group("fake", rank=rank, world_size=self._world_size, store=FakeStore())
        forget_meshes()
        self._recorder.begin(steps.report, steps.position)
        name_rank(rank, self._world_size)
        draw_anew(seed_of(0, rank))  # others on each rank, the same in every simulation
        UnknownNumber.was_given = False
        refused.clear()
        try:
            task = own_copy(self._task, shapes_only)
            arguments = task.arguments(rank, self._world_size, input_blob)
            with put_back(self._found), _printing_to(program), _at_most(self._timeout_s), shapes_only, roofline:
                result = task.fn(*tree_map_only(torch.Tensor, shapes_only.given, arguments))
                roofline.note_end()
            if refused:  # and the program went on, by an except of its own
                raise refused[0]
            program.result = pack(_shapes_of(result), f"what rank {rank} returned")
        except BaseException as error:
            program.error = describe_error(error)
            if (refusal := refusal_in(error)) is not None:  # whatever a library made of it
                program.error |= {"type": type(refusal).__name__, "message": str(refusal), "related": []}
        finally:
            self._recorder.flush()
            steps.position()
            if dist.is_initialized():  # scripts end their group themselves
                dist.destroy_process_group()
        program.was_given_unknown = UnknownNumber.was_given
        program.memory = asdict(roofline.result())
        return program


def _shapes_of(result: Any) -> Any:
    """Tensors as they come back: shape and dtype, on the device "meta"."""
    def shape_of(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

    return tree_map_only(torch.Tensor, shape_of, result)


@contextmanager
def _printing_to(program: Program):
    """A rank may be recorded twice, and what it prints is to be read once."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    finally:
        program.printed = out.getvalue(), err.getvalue()


@contextmanager
def _at_most(seconds: float):
    def give_up(*_):
        raise EndlessProgram(f"the program has not ended after {seconds:g} s; does it wait for something that never comes?")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
