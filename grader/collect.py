"""Run a function through cases and write down what came of it. Untrusted code runs only in the ranks started here.

As a program (`python -m grader.collect FOLDER`) it reads a folder of jobs and writes a folder of evidence, so that it can
stand inside a sandbox: nothing but safetensors and JSON leaves it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cloudpickle

from grader.adapters import BEGIN, RankTask
from grader.evidence import DEADLOCKED, MISSING, RAISED, RETURNED, SKELETON_ERROR, TIMED_OUT, Evidence, pack, unpack
from grader.exercise import Case
from utils.errors import DeadlineExceeded, Deadlock, RankFailed, RanksError
from utils.job import Job, Outcome
from utils.launcher import launch
from utils.memory import RankMemory
from utils.ranks import Run, explain, to_run
from utils.source import Line
from utils.trace import Call, Span, Trace


def collect(function_blob: bytes, adapter: str, cases: Sequence[Case], timeout_s: float) -> list[Evidence]:
    """Evidence of each case, in order. After a run out of time, or of an untouched skeleton, the rest is left out."""
    found = []
    for case in cases:
        found.append(collect_one(function_blob, adapter, case, timeout_s))
        if found[-1].ending == TIMED_OUT or found[-1].error_kind == SKELETON_ERROR:
            break
    return found


def collect_one(function_blob: bytes, adapter: str, case: Case, timeout_s: float) -> Evidence:
    """Run one case on fresh ranks."""
    task = cloudpickle.dumps(RankTask(function_blob, adapter, case.groups))
    outcome = launch(Job(task, [pack(inputs) for inputs in case.inputs], timeout_s=timeout_s, show_output=False))
    outputs = [_output(outcome, rank) for rank in range(case.world_size)]
    run = to_run(outcome, outputs)
    error = explain(outcome, timeout_s)
    ending, kind = _ending(error)
    return Evidence(outputs, ending, after_begin(run), str(error or "").strip(), kind, run.memory, run.output,
                    run.elapsed_s)


def after_begin(run: Run) -> Trace:
    """The trace without what the harness itself did before it called the function."""
    begins = {span.rank: span.start_s for span in run.trace.spans if span.name == BEGIN}
    kept = [c for c in run.trace.calls if c.start_s >= begins.get(c.rank, float("inf"))]
    spans = [s for s in run.trace.spans if s.name != BEGIN]
    return Trace(run.trace.world_size, tuple(kept), tuple(spans), run.trace.wire_bytes, run.trace.duration_s)


def _output(outcome: Outcome, rank: int) -> Any:
    return unpack(outcome.blobs[rank]) if rank in outcome.blobs else MISSING


def _ending(error: RanksError | None) -> tuple[str, str]:
    if error is None:
        return RETURNED, ""
    if isinstance(error, RankFailed):
        return RAISED, error.failures[0].kind
    if isinstance(error, Deadlock):
        return DEADLOCKED, error.kind
    assert isinstance(error, DeadlineExceeded)
    return TIMED_OUT, "DeadlineExceeded"


# ── as files ──


def write_job(folder: Path, function_blob: bytes, adapter: str, cases: Sequence[Case], timeout_s: float) -> None:
    """A folder that `python -m grader.collect` can work on."""
    folder.mkdir(parents=True)
    (folder / "function.pkl").write_bytes(function_blob)
    facts = {"adapter": adapter, "timeout_s": timeout_s, "cases": [{"name": c.name, "groups": c.groups} for c in cases]}
    (folder / "job.json").write_text(json.dumps(facts))
    for number, case in enumerate(cases):
        for rank, inputs in enumerate(case.inputs):
            (folder / f"case{number}-rank{rank}.safetensors").write_bytes(pack(inputs))


def read_job(folder: Path) -> tuple[bytes, str, list[Case], float]:
    """What `write_job` wrote."""
    facts = json.loads((folder / "job.json").read_text())
    cases = []
    for number, one in enumerate(facts["cases"]):
        files = sorted(folder.glob(f"case{number}-rank*.safetensors"), key=lambda f: int(f.stem.rsplit("rank", 1)[1]))
        groups = one["groups"] and tuple(tuple(members) for members in one["groups"])
        cases.append(Case(one["name"], tuple(unpack(file.read_bytes()) for file in files), groups))
    return (folder / "function.pkl").read_bytes(), facts["adapter"], cases, facts["timeout_s"]


def write_evidence(folder: Path, number: int, evidence: Evidence) -> None:
    """Evidence of case `number` as one safetensors and one JSON file."""
    facts = asdict(evidence) | {"outputs": None, "trace": asdict(evidence.trace)}
    facts["missing"] = [rank for rank, output in enumerate(evidence.outputs) if output is MISSING]
    outputs = [None if output is MISSING else output for output in evidence.outputs]
    (folder / f"outputs{number}.safetensors").write_bytes(pack(outputs))
    (folder / f"evidence{number}.json").write_text(json.dumps(facts))


def read_evidence(folder: Path) -> list[Evidence]:
    """All evidence of a folder, in order of the cases.  Raises: ValueError if a file is not what it should be."""
    found = []
    while (file := folder / f"evidence{len(found)}.json").exists():
        facts = json.loads(file.read_text())
        outputs = unpack((folder / f"outputs{len(found)}.safetensors").read_bytes())
        missing = set(facts.pop("missing"))
        facts["outputs"] = [MISSING if rank in missing else output for rank, output in enumerate(outputs)]
        facts["trace"] = _read_trace(facts["trace"])
        facts["memory"] = [m and RankMemory(**m) for m in facts["memory"]]
        facts["prints"] = {int(rank): lines for rank, lines in facts["prints"].items()}
        found.append(Evidence(**facts))
    return found


def _read_trace(facts: dict) -> Trace:
    calls = tuple(Call(**{**c, "members": tuple(c["members"]), "shape": tuple(c["shape"]),
                          "source": c["source"] and Line(**c["source"])}) for c in facts.pop("calls"))
    return Trace(calls=calls, spans=tuple(Span(**s) for s in facts.pop("spans")), **facts)


def main(folder: Path) -> None:
    """Work through every job in `folder`."""
    for job in sorted(path.parent for path in folder.glob("*/job.json")):
        function_blob, adapter, cases, timeout_s = read_job(job)
        for number, evidence in enumerate(collect(function_blob, adapter, cases, timeout_s)):
            write_evidence(job, number, evidence)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
