"""run_ranks: a function from a notebook cell on several real ranks, and everything that came of it.

The way to a rank and back, one file a step:
    run.py        `run_ranks`, below, makes a Job and hands it to `launch`
    payload.py    `NotebookTask.packed` makes bytes of the function, `packed_inputs` of each rank's input
    launcher.py   `launch` starts the ranks, hands task and inputs out once all have met, follows what they say, ends them
    place.py      `Place.start` begins a rank's process, which calls `rank_main(*pipes, settings)`: it is forked from a clean
                  process (server.py does no more than that) or spawned
    worker.py     `rank_main` is the rank: it joins the group, calls the task (`NotebookTask.__call__` in payload.py, which
                  calls the function), and sends back "returned" with the result's bytes
    channel.py    `Channel` is each end of the connection, `Mailbox` the launcher's ends of all; a table of all messages
then `finish`, below, unpickles the results that the launcher has kept (Outcome.blobs), and `to_run` makes the Run.

The way of a call into the trace: `TracedGroup` (../trace/traced_group.py) is what functions of dist call in a rank, it has
`Recorder` (../trace/recorder.py) tell of each call before it begins; `build_trace` (../trace/trace.py) makes the trace.
"""

import functools
import math
import numbers
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import torch

from utils.deadlocks.advice import advice_on
from utils.deadlocks.errors import BadType, BadValue, DeadlineExceeded, Failure, RankFailed, RanksError, Related
from utils.deadlocks.oversights import oversights_in
from utils.deadlocks.verdicts import deadlock_verdict, mismatch_verdict, waiting_ranks
from utils.languages.choice import translated
from utils.ranks.job import Job, Outcome, stacks_of
from utils.ranks.launcher import launch
from utils.ranks.live import status_lines
from utils.ranks.payload import NotebookTask, packed_inputs
from utils.ranks.server import COMPILER, START_METHODS
from utils.trace.memory import RankMemory
from utils.trace.source import Line, to_line
from utils.trace.trace import Trace, build_trace

MAX_WORLD_SIZE = 64
HEAVY = tuple(f"torch.distributed.{name}" for name in ("checkpoint", "fsdp", "pipelining", "tensor"))  # to import
_BACKEND_OF = {"cpu": "gloo", "cuda": "nccl"}


@dataclass(frozen=True)
class Run:
    """What came of a run: results[r] of each rank r, the trace, memory[r], output[r] (lines), elapsed_s.

    oversights: mistakes in its calls that it survived, a line each.
    verdict_s: seconds between the last thing that any rank did and the end of the run.
    """

    world_size: int
    results: list[Any]
    trace: Trace
    memory: list[RankMemory | None]
    output: dict[int, list[str]] = field(default_factory=dict)
    elapsed_s: float = 0.0
    verdict_s: float = 0.0
    oversights: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Run of {self.world_size} ranks: {len(self.trace.calls)} calls, {self.elapsed_s:.2f} s"


def run_ranks(
    fn: Callable, world_size: int | None = None, *, inputs: Sequence | None = None, device: str | None = None,
    backend: str | None = None, timeout_s: float = 120.0, trace: bool = True, memory: bool = True,
    start_method: str | None = None,
) -> Run:
    """Call `fn` on `world_size` fresh ranks that share a process group, and wait for all of them.

    fn: any function, also one of a notebook cell. Parameters called rank and world_size are filled in; another first
        parameter receives inputs[rank]. Without inputs, fn(rank) and fn(rank, world_size) work under any names.
    world_size: 1 to 64; may be left out when `inputs` is given.
    inputs: one value a rank: a list, or a tensor or array whose rows they are. Tensors on a GPU travel as CPU tensors.
    device: "cpu" (the default), or "cuda": a GPU for each rank, which is its default device.
    backend: "gloo" (on the CPU) or "nccl" (on GPUs); follows from the device, and the device from it.
    timeout_s: seconds after which an unfinished run is ended and each rank's stack shown. On Linux the time in which ranks
        waited for processors that other programs used does not count.
    trace, memory: record calls and deadlocks; record tensors held (a few microseconds for each torch operation).
    start_method: "forkserver" (the default on Linux) or "spawn" (on macOS, where forking was not tried).

    Returns: a Run.
    Raises: ValueError or TypeError before anything starts, if an argument cannot work; then RankFailed, Deadlock,
        Mismatch or DeadlineExceeded, each with what is known in its `run`.
    """
    world_size = checked_world_size(world_size, inputs, MAX_WORLD_SIZE)
    task = NotebookTask.of(fn, has_inputs=inputs is not None)
    blobs, timeout_s = packed_inputs(inputs, world_size), checked_timeout(timeout_s)
    packed = task.packed()
    job = Job(packed, blobs, _checked_backend(device, backend, world_size), timeout_s, trace, memory,
              _checked_start_method(start_method), preload=_imported_once(packed))
    outcome = launch(job, live=status_lines() if trace else None)
    run = finish(outcome, timeout_s)
    for line in run.oversights:
        print(translated(line))
    return run


def _imported_once(packed: bytes) -> tuple[str, ...]:
    """What is imported once for all ranks, where each would take half a second: what the caller has of torch's engines, and
    its compiler where these or an optimizer is used."""
    engines = tuple(name for name in HEAVY if name in sys.modules)
    return (COMPILER, *engines) if engines or b"optim" in packed else ()


def finish(outcome: Outcome, timeout_s: float) -> Run:
    """The Run of an outcome whose results are trusted.  Raises: the error that explains a bad one."""
    results = [cloudpickle.loads(outcome.blobs[rank]) if rank in outcome.blobs else None
               for rank in range(len(outcome.state.ranks))]
    run = to_run(outcome, results)
    error = explain(outcome, timeout_s)
    if error is not None:
        error.run = run
        raise error
    return run


def to_run(outcome: Outcome, results: list[Any]) -> Run:
    """A Run with these results."""
    world_size = len(outcome.state.ranks)
    trace = build_trace(world_size, outcome.events, outcome.wire_bytes)
    memory = [RankMemory(**outcome.memory[rank]) if rank in outcome.memory else None for rank in range(world_size)]
    return Run(world_size, results, trace, memory, outcome.output, outcome.elapsed_s, outcome.verdict_s,
               oversights_in(outcome.events))


def explain(outcome: Outcome, timeout_s: float) -> RanksError | None:
    """The error that tells why a run did not end well; None if it did. A disagreement explains what follows from it."""
    outcome.state.look_at_the_dead()
    if outcome.state.disagreement:
        return mismatch_verdict(outcome.state.disagreement)
    if outcome.errors:
        failures = sorted((to_failure(rank, facts) for rank, facts in outcome.errors), key=lambda f: f.secondary)
        return RankFailed(failures, waiting_ranks(outcome.state))
    if outcome.stuck:
        return deadlock_verdict(outcome.state, outcome.stuck)
    if outcome.timed_out:
        return DeadlineExceeded(timeout_s, stacks_of(outcome), waiting_ranks(outcome.state))
    return None


def to_failure(rank: int, facts: dict) -> Failure:
    """What a rank said of its own error."""
    related = tuple(Related(other["why"], int(other["depth"]), other["type"], other["message"], _lines(other),
                            tuple(other["notes"])) for other in facts.get("related", ()))
    notes = (*facts["notes"], *advice_on(facts["type"], facts["message"]))
    return Failure(rank, facts["type"], facts["message"], _lines(facts), notes, bool(facts.get("lost")),
                   related)


def _lines(facts: dict) -> tuple[Line, ...]:
    return tuple(line for frame in facts["frames"] if (line := to_line(frame)))


def checked_world_size(world_size: Any, inputs: Any, most: int) -> int:
    """How many ranks are asked for.  Raises: ValueError or TypeError for what cannot be a number of ranks up to `most`."""
    if inputs is not None:
        try:
            length = len(inputs)
        except TypeError:
            raise BadType(f"inputs must be a list with one value a rank; got {type(inputs).__name__}") from None
        if world_size is None:
            world_size = length
        elif isinstance(world_size, int) and length != world_size:
            raise BadValue(f"inputs must hold one value a rank: {world_size} ranks, but {length} inputs")
    if isinstance(world_size, bool) or not isinstance(world_size, numbers.Integral):
        raise BadType(f"world_size must be a whole number of ranks, such as 4; got {world_size!r}")
    if not 1 <= world_size <= most:
        raise BadValue(f"world_size must be from 1 to {most:,}; got {world_size}")
    return int(world_size)


def checked_timeout(timeout_s: Any) -> float:
    """Seconds.  Raises: ValueError for what cannot be a time."""
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, numbers.Real) or not 0 < timeout_s < math.inf:
        raise BadValue(f"timeout_s must be a positive number of seconds; got {timeout_s!r}")
    return float(timeout_s)


def _checked_backend(device: Any, backend: str | None, world_size: int) -> str:
    if device is None and backend is None:
        if _n_gpus() >= world_size:
            _tell_of_gpus(_n_gpus())
        return "gloo"
    if device is not None and str(device) not in _BACKEND_OF:
        raise BadValue(f"device must be 'cpu' or 'cuda' (rank r then has GPU r); got {device!r}")
    if backend not in (None, *_BACKEND_OF.values()):
        raise BadValue(f"backend must be 'nccl' (on GPUs) or 'gloo' (on the CPU); got {backend!r}")
    if device is not None and backend not in (None, _BACKEND_OF[str(device)]):
        raise BadValue(f"device={device!r} and backend={backend!r} do not go together: ranks on GPUs use nccl, ranks on the "
                       "CPU use gloo; name one of the two")
    backend = backend or _BACKEND_OF[str(device)]
    if backend == "nccl" and _n_gpus() < world_size:
        raise BadValue(f"nccl needs a GPU for each of the {world_size} ranks, but this machine has {_n_gpus()}; "
                       "leave device and backend out to run on the CPU")
    return backend


def _n_gpus() -> int:
    return torch.cuda.device_count() if torch.distributed.is_nccl_available() else 0


@functools.cache
def _tell_of_gpus(n: int) -> None:
    """Once in a notebook's life, where a run's ranks could have had a GPU each."""
    print(translated(f"These ranks are on the CPU. This machine has {n} GPU{'s' * (n > 1)}: run_ranks(..., device=\"cuda\") "
                     "would give each rank one."))


def _checked_start_method(start_method: str | None) -> str:
    if start_method is None:
        return START_METHODS[0]
    if start_method not in START_METHODS:
        raise BadValue(f"start_method must be one of {list(START_METHODS)}; got {start_method!r} (the notebook's "
                       "own process is never forked)")
    return start_method


