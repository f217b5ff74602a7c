"""Run a function through cases and write down what came of it. Untrusted code runs only in the ranks started here.

As a program (parcel of jobs in, parcel of evidence out) it stands inside a sandbox: nothing but safetensors and JSON leaves
it. Each rank is then isolated from the others and from this program.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import cloudpickle

from grader.calling.task import BEGIN, GRADER, RankTask
from grader.evidence import parcel
from grader.evidence.case import Case
from grader.evidence.evidence import DEADLOCKED, MISSING, RAISED, RETURNED, SKELETON_ERROR, TIMED_OUT, Evidence, pack, unpack
from grader.sandbox.isolated_place import IsolatedPlace
from grader.sandbox.witness import Witness
from utils.deadlocks.errors import DeadlineExceeded, Deadlock, RankFailed, RanksError
from utils.ranks.job import Job, Outcome
from utils.ranks.launcher import launch
from utils.ranks.place import Place
from utils.ranks.run import Run, explain, to_run
from utils.ranks.server import COMPILER, RankServer
from utils.trace.trace import Trace

PRELOAD = ("grader.calling.task",)


@dataclass(frozen=True)
class Candidate:
    """A pickled function, and how ranks call it.

    way: see grader.calling.task. trains: an optimizer will step.
    """

    function: bytes
    way: str
    timeout_s: float
    trains: bool = False


def collect(candidate: Candidate, cases: Sequence[Case], place: Callable[[], Place] = Place) -> Iterator[Evidence]:
    """Evidence of each case, in order. After a run out of time, or of an untouched skeleton, the rest is left out."""
    for case in cases:
        found = collect_one(candidate, case, place)
        yield found
        if found.ending == TIMED_OUT or found.error_kind == SKELETON_ERROR:
            return


def collect_one(candidate: Candidate, case: Case, place: Callable[[], Place] = Place) -> Evidence:
    """Run one case on the ranks of a new place."""
    task = cloudpickle.dumps(RankTask(candidate.function, candidate.way, case.groups, case.late_s))
    preload = (*PRELOAD, COMPILER) if candidate.trains else PRELOAD
    job = Job(task, [pack(inputs) for inputs in case.inputs], timeout_s=candidate.timeout_s, show_output=False,
              machinery=(str(GRADER),), preload=preload)
    outcome = launch(job, place())
    crossed, messages = outcome.observed or (None, None)
    if messages and not messages.complete:  # packets were missed, on a busy machine: look once more
        outcome = launch(job, place())
        crossed, messages = outcome.observed or (None, None)
    outputs, refused = _outputs(outcome, case.world_size)
    run = to_run(outcome, outputs)
    error = explain(outcome, candidate.timeout_s)
    ending, kind = (RAISED, ValueError.__name__) if refused and error is None else _ending(error)
    return Evidence(outputs, ending, after_begin(run), str(error or refused).strip(), kind, run.memory, run.output,
                    run.elapsed_s, crossed, messages)


def after_begin(run: Run) -> Trace:
    """The trace without what the harness itself did before it called the function."""
    begins = {span.rank: span.start_s for span in run.trace.spans if span.name == BEGIN}
    kept = [c for c in run.trace.calls if c.start_s >= begins.get(c.rank, float("inf"))]
    spans = [s for s in run.trace.spans if s.name != BEGIN]
    return Trace(run.trace.world_size, tuple(kept), tuple(spans), run.trace.wire_bytes, run.trace.duration_s)


def _outputs(outcome: Outcome, world_size: int) -> tuple[list[Any], str]:
    """(what each rank returned, why something returned is not taken)"""
    outputs, refused = [MISSING] * world_size, ""
    for rank, blob in outcome.blobs.items():
        try:
            outputs[rank] = unpack(blob)
        except ValueError as error:
            refused = f"rank {rank}: {error}"
    return outputs, refused


def _ending(error: RanksError | None) -> tuple[str, str]:
    if error is None:
        return RETURNED, ""
    if isinstance(error, RankFailed):
        return RAISED, error.failures[0].kind
    if isinstance(error, Deadlock):
        return DEADLOCKED, error.kind
    assert isinstance(error, DeadlineExceeded)
    return TIMED_OUT, "DeadlineExceeded"


# ── as a program ──


def job_files(name: str, candidate: Candidate, cases: Sequence[Case]) -> dict[str, bytes]:
    """The files of one exercise's job."""
    facts = {"way": candidate.way, "timeout_s": candidate.timeout_s, "trains": candidate.trains, "cases": [
        {"groups": case.groups, "late_s": case.late_s, "world_size": case.world_size} for case in cases]}
    inputs = {f"{name}/{number}-{rank}.safetensors": pack(inputs)
              for number, case in enumerate(cases) for rank, inputs in enumerate(case.inputs)}
    return {f"{name}/job.json": json.dumps(facts).encode(), f"{name}/function.pkl": candidate.function, **inputs}


def read_job(name: str, files: Mapping[str, bytes]) -> tuple[Candidate, list[Case]]:
    """What `job_files` made; cases have no names here."""
    facts = json.loads(files[f"{name}/job.json"])
    cases = []
    for number, one in enumerate(facts["cases"]):
        inputs = tuple(unpack(files[f"{name}/{number}-{rank}.safetensors"]) for rank in range(one["world_size"]))
        groups = one["groups"] and tuple(tuple(members) for members in one["groups"])
        cases.append(Case("", inputs, groups, tuple(one["late_s"])))
    return Candidate(files[f"{name}/function.pkl"], facts["way"], facts["timeout_s"], facts["trains"]), cases


def evidence_files(name: str, number: int, evidence: Evidence) -> dict[str, bytes]:
    """Evidence of case `number` as one safetensors and one JSON file."""
    facts = asdict(replace(evidence, outputs=[]))
    facts["missing"] = [rank for rank, output in enumerate(evidence.outputs) if output is MISSING]
    outputs = [None if output is MISSING else output for output in evidence.outputs]
    return {f"{name}/{number}.safetensors": pack(outputs), f"{name}/{number}.json": json.dumps(facts).encode()}


def main() -> None:
    """Work through every job of the parcel on standard input; evidence goes to standard output as it comes."""
    isolated = "--isolated" in sys.argv
    server = RankServer.split_off() if isolated else None  # while there is nothing here that ranks may not see
    files = parcel.from_bytes(sys.stdin.buffer.read())
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints to the log
    writer = parcel.Writer(stream)
    place = partial(IsolatedPlace, server, _witness()) if isolated else Place
    complete = True
    for name in [file.split("/")[0] for file in files if file.endswith("/job.json")]:
        try:
            for number, evidence in enumerate(collect(*read_job(name, files), place)):
                for file, content in evidence_files(name, number, evidence).items():
                    writer.add(file, content)
        except Exception:  # of reports that make no sense; the other exercises go on
            traceback.print_exc()
            complete = False
    writer.close()
    sys.exit(not complete)


def _witness() -> Witness | None:
    """None where the system does not let it listen; the network is then only counted."""
    try:
        return Witness()
    except OSError as error:
        print(f"the network is counted, but not read: {error}")
        return None


if __name__ == "__main__":
    main()
