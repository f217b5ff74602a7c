"""What is asked of a run, and what came of it: plain data on both sides of the launcher."""

from dataclasses import dataclass, field
from typing import Any

from utils.deadlocks.waits import WaitState
from utils.ranks.server import START_METHODS, Preload
from utils.trace.source import Line, to_line


@dataclass(frozen=True)
class Job:
    """What to run: `task` is a pickled callable (see worker.perform); `inputs` one blob of bytes a rank.

    asked_for: one more blob a rank, which it is sent once its task asks, and not before.
    late_s: by how much each rank is late, if any is: it gets what it asked for so much later than all have asked, and each
        of its pauses called HELD_UP (utils.trace.spans) lasts so long. No rank is told.
    machinery: folders of code that is not the user's, so that messages show no line of it.
    seed: decides what numbers each rank draws that its program does not seed: others on each rank, the same in every run.
        None: others in every run, too, as in any fresh process.
    preload: modules that ranks should find imported, or what is to be called before they begin.
    """

    task: bytes
    inputs: list[bytes]
    backend: str = "gloo"
    timeout_s: float = 120.0
    trace: bool = True
    memory: bool = True
    start_method: str = START_METHODS[0]
    show_output: bool = True
    machinery: tuple[str, ...] = ()
    preload: tuple[Preload, ...] = ()
    asked_for: tuple[bytes, ...] = ()
    late_s: tuple[float, ...] = ()
    seed: int | None = None

    @property
    def world_size(self) -> int:
        return len(self.inputs)


@dataclass
class Outcome:
    """Everything that is known of a run that is over. Nothing in it was unpickled."""

    state: WaitState
    blobs: dict[int, bytes] = field(default_factory=dict)
    errors: list[tuple[int, dict]] = field(default_factory=list)  # (rank, facts), in order of time
    stuck: frozenset[int] = frozenset()
    timed_out: bool = False
    stacks: dict[int, list] = field(default_factory=dict)
    events: list[tuple[int, str, dict]] = field(default_factory=list)
    memory: dict[int, dict] = field(default_factory=dict)
    output: dict[int, list[str]] = field(default_factory=dict)
    wire_bytes: list[list[int]] | None = None
    observed: Any = None  # by the place where the ranks ran, from their meeting to their end (utils.ranks.place)
    elapsed_s: float = 0.0
    starved_s: float = 0.0  # of it, in which ranks waited for processors that others used
    verdict_s: float = 0.0  # from the last report of any rank to the end of the run


def stacks_of(outcome: Outcome) -> dict[int, list[Line]]:
    """Where each rank was that was asked for its stack: the innermost line last."""
    return {rank: [line for frame in frames if (line := to_line(frame))] for rank, frames in outcome.stacks.items()}
