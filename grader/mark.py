"""Mark one notebook: run its cells, collect evidence of each exercise's function, judge, write the verdicts into it."""

from __future__ import annotations

import copy
import os
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbclient.util import run_sync
from nbformat import NotebookNode
from nbformat.v4 import new_output

from grader.check import PAYLOAD_FOLDER
from grader.collect import read_evidence, write_job
from grader.exercise import Exercise
from grader.exercises import EXERCISES
from grader.judge import judge
from grader.splice import is_check, name_of
from grader.verdict import Verdict

CELL_TIMEOUT_S = 60
TIMEOUTS_ALLOWED = 2
COLLECT_TIMEOUT_S = 1800
PATIENCE = 2  # times an exercise's own time limit: marking must not depend on how busy the machine is


@dataclass
class Marks:
    """The judge's record of one notebook. `remarks`: what else a reader of the feedback should know."""

    seed: int
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def points(self, exercise: str) -> float:
        """Nothing that the judge did not see earns anything."""
        return self.verdicts[exercise].points if exercise in self.verdicts else 0.0

    def record(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"seed": self.seed, "remarks": self.remarks,
                "exercises": {name: verdict.record() for name, verdict in self.verdicts.items()}}


def mark_notebook(notebook: NotebookNode, seed: int | None = None) -> Marks:
    """Judge every exercise that `notebook` has a check cell for, and put the verdicts into those cells' outputs.

    seed: what the cases are drawn from; fresh for each marking unless given, and recorded.
    """
    marks = Marks(secrets.randbits(32) if seed is None else seed)
    exercises = [EXERCISES[name] for cell in notebook.cells if is_check(cell) and (name := exercise_of(cell)) in EXERCISES]
    with tempfile.TemporaryDirectory(prefix="marking-") as folder:
        handed_over, jobs, work = (Path(folder) / name for name in ("functions", "jobs", "work"))
        for path in (handed_over, jobs, work):
            path.mkdir()
        marks.remarks += run_cells(notebook, handed_over, work)
        for exercise in exercises:
            _write_job(exercise, handed_over, jobs, marks.seed)
        ending = _collect(jobs)
        for exercise in exercises:
            marks.verdicts[exercise.id] = _verdict(exercise, handed_over, jobs, marks, ending)
    for cell in notebook.cells:
        if is_check(cell) and exercise_of(cell) in marks.verdicts:
            show_in(cell, marks.verdicts[exercise_of(cell)])
    return marks


def exercise_of(cell: NotebookNode) -> str:
    """The exercise that a check cell is about."""
    return name_of(cell).removesuffix("_check")


def run_cells(notebook: NotebookNode, handed_over: Path, work: Path) -> list[str]:
    """Run the cells in a kernel, so that the check cells hand over their functions; remarks on what went wrong.

    Cells that only show something (tag "watch") are left out. An error in a cell does not stop the next one.
    """
    remarks: list[str] = []
    client = NotebookClient(copy.deepcopy(notebook), timeout=CELL_TIMEOUT_S, allow_errors=True, kernel_name="python3",
                            resources={"metadata": {"path": str(work)}})
    timeouts = 0
    with client.setup_kernel(env={**os.environ, PAYLOAD_FOLDER: str(handed_over)}):
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code" or "watch" in cell.metadata.get("tags", []):
                continue
            try:
                cell.outputs = client.execute_cell(copy.deepcopy(cell), index).outputs
            except CellTimeoutError:
                timeouts += 1
                remarks.append(f"the cell {name_of(cell)!r} was not done after {CELL_TIMEOUT_S} s")
                if timeouts == TIMEOUTS_ALLOWED:
                    return [*remarks, "the cells after it were not run"]
                run_sync(client.km.interrupt_kernel)()
            except DeadKernelError:
                return [*remarks, f"the kernel died in the cell {name_of(cell)!r}; the cells after it were not run"]
    return remarks


def show_in(cell: NotebookNode, verdict: Verdict) -> None:
    """The verdict as the cell's only output."""
    data = {"text/plain": str(verdict), "text/html": verdict._repr_html_()}
    cell.outputs = [new_output("display_data", data)]


def _write_job(exercise: Exercise, handed_over: Path, jobs: Path, seed: int) -> None:
    function = handed_over / f"{exercise.id}.pkl"
    if function.exists():
        write_job(jobs / exercise.id, function.read_bytes(), exercise.adapter, exercise.cases(seed, grading=True),
                  PATIENCE * exercise.timeout_s)


def _collect(jobs: Path) -> str:
    """Run the collector on all jobs; what went wrong with it, if anything. The sandbox will stand around this call."""
    command = [sys.executable, "-m", "grader.collect", str(jobs)]
    try:
        done = subprocess.run(command, timeout=COLLECT_TIMEOUT_S, stdin=subprocess.DEVNULL, capture_output=True)
    except subprocess.TimeoutExpired:
        return f"the exercises were not done after {COLLECT_TIMEOUT_S} s"
    return "" if done.returncode == 0 else "the exercises could not be run: " + done.stderr.decode()[-500:]


def _verdict(exercise: Exercise, handed_over: Path, jobs: Path, marks: Marks, ending: str) -> Verdict:
    refusal = handed_over / f"{exercise.id}.txt"
    if refusal.exists():
        return Verdict.without_evidence(exercise, refusal.read_text()[:2000])
    if not (jobs / exercise.id).exists():
        reasons = "; ".join(marks.remarks) or f"no function {exercise.id} was defined when the check cell ran"
        return Verdict.without_evidence(exercise, f"Nothing to judge: {reasons}.")
    try:
        evidences = read_evidence(jobs / exercise.id)
    except (ValueError, TypeError, KeyError) as error:
        return Verdict.without_evidence(exercise, f"What the ranks left cannot be read: {error}")
    if not evidences:
        return Verdict.without_evidence(exercise, f"Nothing to judge: {ending or 'the ranks left nothing'}.")
    return judge(exercise, exercise.cases(marks.seed, grading=True), evidences)
