"""Try a function on a case: start ranks that call it, and write down what came of it. Untrusted code runs only in them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import cloudpickle

from grader.calling.handing_out import GRADER, Given
from grader.calling.task import BEGIN, call_function, get_ready, instructions
from grader.evidence.evidence import DEADLOCKED, MISSING, RAISED, RETURNED, SKELETON_ERROR, TIMED_OUT, Evidence, unpack
from utils.deadlocks.errors import DeadlineExceeded, Deadlock, RankFailed, RanksError
from utils.ranks.job import Job, Outcome
from utils.ranks.launcher import launch
from utils.ranks.place import Place
from utils.ranks.run import Run, explain, to_run
from utils.ranks.server import COMPILER
from utils.trace.source import Line
from utils.trace.trace import Trace

TASK = cloudpickle.dumps(call_function)
PRELOAD = ("grader.calling.task",)
STANDSTILLS = 3  # of one function: they are enough to learn from, and each takes longer than a case that goes on
SEED = 0  # of numbers that a function draws without a seed of its own: marks must not depend on luck
LOOKS = 3  # at a case, as long as the network could not be read in full


@dataclass(frozen=True)
class Candidate:
    """A function to be tried, pickled. trains, measured, caller, forbidden: as in its exercise (grader.judging)."""

    function: bytes
    timeout_s: float
    trains: bool = False
    measured: bool = False
    caller: str = ""
    forbidden: tuple[str, ...] = ()


def collect(candidate: Candidate, cases: Iterable[Given], place: Callable[[], Place] = Place) -> Iterator[Evidence]:
    """Evidence of each case, in order.

    After a run out of time, some standstills, or an untouched skeleton, the rest is left out.
    """
    standstills = 0
    for case in cases:
        evidence = collect_one(candidate, case, place)
        yield evidence
        standstills += evidence.ending == DEADLOCKED
        if evidence.ending == TIMED_OUT or evidence.error_kind == SKELETON_ERROR or standstills == STANDSTILLS:
            return


def collect_one(candidate: Candidate, case: Given, place: Callable[[], Place] = Place) -> Evidence:
    """Run one case on the ranks of a new place."""
    job = job_for(candidate, case, TASK, instructions(candidate.function, candidate.caller, candidate.forbidden, case))
    for _ in range(LOOKS):
        outcome = launch(job, place())
        crossed, messages, weights = outcome.observed or (None, None, None)
        if messages is None or messages.complete:
            break  # else packets were missed, on a busy machine: look again
    outputs, refused = _outputs(outcome, case.world_size)
    run = to_run(outcome, outputs)
    error = explain(outcome, candidate.timeout_s)
    ending, kind = (RAISED, ValueError.__name__) if refused and error is None else _ending(error)
    return Evidence(outputs, ending, after_begin(run), str(error or refused).strip(), kind, *_where(error), run.memory,
                    run.output, run.elapsed_s, outcome.starved_s, crossed, messages, weights, _said(error) or refused)


def job_for(candidate: Candidate, case: Given, task: bytes, blob: bytes) -> Job:
    """What the ranks of a case run: a pickled task, which each is told `blob`."""
    ready = partial(get_ready, candidate.caller, candidate.forbidden)
    return Job(task, [blob] * case.world_size, timeout_s=candidate.timeout_s, memory=candidate.measured, show_output=False,
               machinery=(str(GRADER),), preload=(*PRELOAD, *[COMPILER] * candidate.trains, ready), asked_for=case.inputs,
               late_s=case.late_s, seed=SEED)


def after_begin(run: Run) -> Trace:
    """The trace without what the harness itself did before it called the function."""
    begins = {span.rank: span.start_s for span in run.trace.spans if span.name == BEGIN}
    calls = tuple(call for call in run.trace.calls if call.start_s >= begins.get(call.rank, float("inf")))
    return replace(run.trace, calls=calls, spans=tuple(span for span in run.trace.spans if span.name != BEGIN))


def _outputs(outcome: Outcome, world_size: int) -> tuple[list[Any], str]:
    """(what each rank returned, why something returned is not taken)"""
    outputs, refused = [MISSING] * world_size, ""
    for rank, blob in outcome.blobs.items():
        try:
            outputs[rank] = unpack(blob)
        except ValueError as error:
            refused = f"rank {rank}: {error}"
    return outputs, refused


def _where(error: RanksError | None) -> tuple[tuple[Line, ...], str]:
    """(the lines in which it ended, what would help), which are no words of the student's program."""
    if isinstance(error, RankFailed):
        return error.failures[0].lines, ""
    if isinstance(error, Deadlock):
        return tuple(stood.line for stood in error.standstills if stood.line), error.fix
    if isinstance(error, DeadlineExceeded):
        return tuple(lines[-1] for lines in error.stacks.values() if lines), ""
    return (), ""


def _said(error: RanksError | None) -> str:
    """Hints are chosen by these words, so no word of the student's own lines may be among them."""
    if not isinstance(error, RankFailed):
        return str(error or "")
    causes = [failure for failure in error.failures if not failure.secondary] or error.failures
    return "\n".join("\n".join([f"{one.kind}: {one.message}", *one.notes])
                     for failure in causes for one in (failure, *failure.related))


def _ending(error: RanksError | None) -> tuple[str, str]:
    if error is None:
        return RETURNED, ""
    if isinstance(error, RankFailed):
        return RAISED, error.failures[0].kind
    if isinstance(error, Deadlock):
        return DEADLOCKED, error.kind
    assert isinstance(error, DeadlineExceeded)
    return TIMED_OUT, "DeadlineExceeded"
