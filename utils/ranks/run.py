"""run_ranks: a function from a notebook cell on several real ranks, and everything that came of it."""

import numbers
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import torch

from utils.deadlocks.advice import advice_on
from utils.deadlocks.errors import BadType, BadValue, DeadlineExceeded, Failure, RankFailed, RanksError
from utils.deadlocks.verdicts import deadlock_verdict, mismatch_verdict, waiting_ranks
from utils.ranks.job import Job, Outcome, stacks_of
from utils.ranks.launcher import launch
from utils.ranks.live import live_lines
from utils.ranks.payload import NotebookTask, pack
from utils.trace.memory import RankMemory
from utils.trace.source import to_line
from utils.trace.trace import Trace, build_trace

MAX_WORLD_SIZE = 64
_CONSEQUENCES = re.compile("connection (closed|reset) by peer|broken pipe|timed out waiting|socket closed", re.I)


@dataclass(frozen=True)
class Run:
    """What came of a run: results[r] of each rank r, the trace, memory[r], output[r] (lines), elapsed_s.

    verdict_s: seconds between the last thing that any rank did and the end of the run.
    """

    world_size: int
    results: list[Any]
    trace: Trace
    memory: list[RankMemory | None]
    output: dict[int, list[str]] = field(default_factory=dict)
    elapsed_s: float = 0.0
    verdict_s: float = 0.0

    def __repr__(self) -> str:
        return f"Run of {self.world_size} ranks: {len(self.trace.calls)} calls, {self.elapsed_s:.2f} s"


def run_ranks(
    fn: Callable, world_size: int | None = None, *, inputs: Sequence | None = None, backend: str | None = None,
    timeout_s: float = 120.0, trace: bool = True, memory: bool = True, start_method: str | None = None,
) -> Run:
    """Call `fn` on `world_size` fresh ranks that share a process group, and wait for all of them.

    fn: any function, also one of a notebook cell. Parameters called rank and world_size are filled in; another first
        parameter receives inputs[rank]. Without inputs, fn(rank) and fn(rank, world_size) work under any names.
    world_size: 1 to 64; may be left out when `inputs` is given.
    inputs: one value a rank.
    backend: "nccl" (a GPU a rank) or "gloo" (CPU). None: nccl where there are several GPUs, and one for every rank.
    timeout_s: seconds after which an unfinished run is ended and each rank's stack shown. On Linux the time in which ranks
        waited for processors that other programs used does not count.
    trace, memory: record calls and deadlocks; record tensors held (a few microseconds for each torch operation).
    start_method: "forkserver" (default where it exists) or "spawn".

    Returns: a Run.
    Raises: ValueError or TypeError before anything starts, if an argument cannot work; then RankFailed, Deadlock,
        Mismatch or DeadlineExceeded, each with what is known in its `run`.
    """
    world_size = checked_world_size(world_size, inputs, MAX_WORLD_SIZE)
    task = NotebookTask.of(fn, has_inputs=inputs is not None)
    blobs = [pack(value, f"inputs[{rank}]") for rank, value in enumerate(inputs or [None] * world_size)]
    if not (isinstance(timeout_s, numbers.Real) and timeout_s > 0):
        raise BadValue(f"timeout_s must be a positive number of seconds; got {timeout_s!r}")
    job = Job(task.packed(), blobs, _checked_backend(backend, world_size), float(timeout_s), trace, memory,
              _checked_start_method(start_method))
    outcome = launch(job, live=live_lines() if trace else None)
    return finish(outcome, timeout_s)


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
    return Run(world_size, results, trace, memory, outcome.output, outcome.elapsed_s, outcome.verdict_s)


def explain(outcome: Outcome, timeout_s: float) -> RanksError | None:
    """The error that tells why a run did not end well; None if it did. A disagreement explains what follows from it."""
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
    lines = tuple(line for frame in facts["frames"] if (line := to_line(frame)))
    notes = (*facts["notes"], *advice_on(facts["type"], facts["message"]))
    return Failure(rank, facts["type"], facts["message"], lines, notes,
                   secondary=bool(_CONSEQUENCES.search(facts["message"])))


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


def _checked_backend(backend: str | None, world_size: int) -> str:
    gpus = torch.cuda.device_count() if torch.distributed.is_nccl_available() else 0
    if backend is None:
        return "nccl" if gpus >= max(world_size, 2) else "gloo"  # one GPU: else 1 rank ran there, and 2 on the CPU
    if backend not in ("nccl", "gloo"):
        raise BadValue(f"backend must be 'nccl', 'gloo' or None (choose by what is there); got {backend!r}")
    if backend == "nccl" and gpus < world_size:
        raise BadValue(f"backend='nccl' needs a GPU for each of the {world_size} ranks, but this machine has {gpus}; "
                         "leave backend out to run on the CPU")
    return backend


def _checked_start_method(start_method: str | None) -> str:
    known = ["forkserver", "spawn"] if hasattr(os, "fork") else ["spawn"]
    if start_method is None:
        return known[0]
    if start_method not in known:
        raise BadValue(f"start_method must be one of {known}; got {start_method!r} (the notebook's own process is "
                         "never forked)")
    return start_method


