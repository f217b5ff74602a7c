"""Mark one notebook: run its cells, collect evidence of each exercise's function, judge, write the verdicts into it.

Student code runs in two sandboxes, one after the other: a kernel that runs the cells and hands the functions over, then
ranks that run the functions. Cases, oracles and judge stay outside.
"""

import json
import secrets
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output

from grader.calling.collect import Candidate
from grader.calling.task import facts_of
from grader.course import feedback, reading
from grader.course.alarms import CONTAINED, CONTRADICTED, MALFORMED, OTHER, Alarm
from grader.course.splice import exercise_of, is_check, splice
from grader.course.suspicion import suspicions
from grader.evidence import parcel
from grader.exercises import EXERCISES
from grader.judging.demands import NETWORK_DEMAND
from grader.judging.exercise import Exercise, Trial
from grader.judging.judge import judge
from grader.judging.verdict import Verdict
from grader.sandbox import accept
from grader.sandbox import bubblewrap as sandbox
from grader.sandbox.collect import job_files

CELL_TIMEOUT_S = 60
CELLS_LIMITS = sandbox.Limits(wall_s=240.0)
RANKS_LIMITS = sandbox.Limits(wall_s=1800.0)
OUTPUT_BYTES = 16 << 20  # of all cells together
SUSPICIONS = 100  # of which a person is told
PATIENCE = 2  # times an exercise's own time limit: marking must not depend on how busy the machine is

Marked = tuple[bytes, dict[str, Any]]  # a marked notebook and its record


@dataclass
class Marks:
    """The judge's record of one notebook.

    remarks: what else a reader of the feedback should know. alarms: what a person who marks should look at.
    """

    seed: int
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    peak_bytes: int = 0
    seconds: float = 0.0

    def alarm(self, kind: str, exercise: str, text: str) -> None:
        self.alarms.append(Alarm(kind, f"{exercise}: {text}", exercise))

    def note(self, done: sandbox.Finished, what: str, consequence: str = "") -> None:
        """What a sandbox used up, and why it was ended, if it was."""
        self.peak_bytes = max(self.peak_bytes, done.peak_bytes)
        if done.problem:
            self.remarks.append(f"while the {what} ran: {done.problem}{consequence}")
            self.alarms.append(Alarm(CONTAINED, f"contained while the {what} ran: {done.problem}"))

    def record(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"seed": self.seed, "remarks": self.remarks, "alarms": [asdict(alarm) for alarm in self.alarms],
                "peak_bytes": self.peak_bytes, "seconds": self.seconds,
                "exercises": {name: verdict.record() for name, verdict in self.verdicts.items()}}


def mark_notebook(notebook: NotebookNode, seed: int | None = None, unsafe: bool = False,
                  known: Mapping[str, Exercise] = EXERCISES) -> Marks:
    """Judge every exercise that `notebook` has a check cell for, and put the verdicts into those cells' outputs.

    seed: what the cases are drawn from; fresh for each marking unless given, and recorded.
    unsafe: without a sandbox, on the caller's own risk. known: the exercises that check cells may name.
    Raises: NoSandbox.
    """
    if not unsafe:
        sandbox.require()
    began = time.monotonic()
    marks = Marks(secrets.randbits(32) if seed is None else seed)
    exercises = [known[name] for cell in notebook.cells if is_check(cell) and (name := exercise_of(cell)) in known]
    functions = _run_cells(notebook, exercises, marks, unsafe)
    jobs = [exercise for exercise in exercises if f"{exercise.id}.pkl" in functions]
    trials = {exercise.id: exercise.trials(marks.seed, grading=True) for exercise in jobs}
    evidence, problem = _run_functions(jobs, trials, functions, marks, unsafe) if jobs else ({}, "")
    for exercise in exercises:
        verdict = _verdict(exercise, trials.get(exercise.id, ()), functions, evidence, problem, marks)
        marks.verdicts[exercise.id] = verdict
        contradictions = [demand.detail for case in verdict.cases for demand in case.demands
                          if demand.id == NETWORK_DEMAND and not demand.met]
        if contradictions:  # one alarm an exercise
            marks.alarm(CONTRADICTED, exercise.id, f"the network contradicts the calls: {contradictions[0]}")
    for cell in notebook.cells:
        verdict = marks.verdicts.get(exercise_of(cell))
        if is_check(cell) and verdict is not None:  # in the cell what the student may see; the record has all of it
            data = {"text/plain": feedback.as_text(verdict), "text/html": feedback.as_html(verdict)}
            cell.outputs = [new_output("display_data", data)]
    marks.seconds = time.monotonic() - began
    return marks


def mark_submission(submitted: bytes, released: bytes, seed: int | None = None, unsafe: bool = False,
                    known: Mapping[str, Exercise] = EXERCISES) -> Marked:
    """(the marked notebook, the record) of a submitted file, whatever is in it, against the released one.

    A pure function but for the seed: it needs no folder and no gradebook.  Raises: NoSandbox.
    """
    student, wrong_with_file = reading.read(submitted)
    release = nbformat.reads(released.decode(), as_version=4)
    suspicious = suspicions(student, release)[:SUSPICIONS]  # before the release is filled with the student's cells
    notebook, not_used = splice(release, student)
    marks = mark_notebook(notebook, seed, unsafe, known)
    marks.remarks[:0] = [*wrong_with_file, *not_used]
    marks.alarms += [*(Alarm(OTHER, text) for text in wrong_with_file), *suspicious]
    return nbformat.writes(notebook).encode(), marks.record()


def left_unmarked(released: bytes, why: str) -> Marked:
    """What stands for the marking of a submission that could not be marked: the released notebook, and no points."""
    notebook, marks = nbformat.reads(released.decode(), as_version=4), Marks(0)
    marks.alarms.append(Alarm(CONTAINED, f"contained: {why}"))
    for name in [exercise_of(cell) for cell in notebook.cells if is_check(cell)]:
        marks.verdicts[name] = Verdict.without_evidence(EXERCISES[name], f"Not marked: {why}.")
    return released, marks.record()


def _run_cells(notebook: NotebookNode, exercises: list[Exercise], marks: Marks, unsafe: bool) -> dict[str, bytes]:
    """What the check cells handed over: <exercise>.pkl, or .txt with the reason why not."""
    parameters = {exercise.id: exercise.parameters for exercise in exercises}
    done = sandbox.run(["-m", "grader.sandbox", "cells", str(CELL_TIMEOUT_S)], parcel.to_bytes({
        "notebook.json": nbformat.writes(notebook).encode(), "exercises.json": json.dumps(parameters).encode()}),
        limits=CELLS_LIMITS, unsafe=unsafe, hidden=[name for exercise in exercises for name in exercise.forbidden])
    marks.note(done, "cells", "; the cells after it were not run")
    files, room = parcel.from_bytes(done.output), OUTPUT_BYTES
    try:
        marks.remarks += accept.remarks(files.get("remarks.json", b"[]"))
        for index, cell in enumerate(notebook.cells):
            content = files.get(f"outputs/{index}.json", b"[]")
            room -= len(content)
            if cell.cell_type == "code" and room >= 0:
                cell.outputs = accept.outputs(content)
        if room < 0:
            marks.remarks.append(f"the cells wrote more than {OUTPUT_BYTES >> 20} MiB in all: only the beginning was kept")
    except accept.Malformed as error:
        marks.remarks.append(f"the cells' outputs were not used: {error}")
        marks.alarms.append(Alarm(MALFORMED, f"malformed outputs of cells: {error}"))
    return files


def _run_functions(exercises: list[Exercise], trials: Mapping[str, Sequence[Trial]], functions: Mapping[str, bytes],
                   marks: Marks, unsafe: bool) -> tuple[dict[str, bytes], str]:
    """(files of evidence, what went wrong with the ranks' program, if anything)"""
    files: dict[str, bytes] = {}
    for exercise in exercises:
        candidate = Candidate(functions[f"{exercise.id}.pkl"], PATIENCE * exercise.timeout_s, exercise.trains,
                              exercise.measured, exercise.way, exercise.forbidden)
        files |= job_files(exercise.id, candidate, [
            facts_of(exercise.way, trial.case, exercise.forbidden) for trial in trials[exercise.id]])
    program = ["-m", "grader.sandbox", "collect", *([] if unsafe else ["--isolated"])]
    ways = {exercise.way for exercise in exercises if exercise.way.startswith("exercises/")}
    done = sandbox.run(program, parcel.to_bytes(files), RANKS_LIMITS, may_isolate=True, unsafe=unsafe,
                       code=[f"grader/{way}" for way in ways])
    marks.note(done, "functions")
    if done.problem and done.log:  # not for the feedback: ranks can make a program say what their inputs were
        marks.alarms.append(Alarm(OTHER, f"the functions' program said: {done.log[-500:].strip()}"))
    return parcel.from_bytes(done.output), done.problem


def _verdict(exercise: Exercise, trials: Sequence[Trial], functions: Mapping[str, bytes], files: Mapping[str, bytes],
             problem: str, marks: Marks) -> Verdict:
    if refusal := functions.get(f"{exercise.id}.txt"):
        return Verdict.without_evidence(exercise, refusal.decode(errors="replace")[:2000])
    if f"{exercise.id}.pkl" not in functions:
        reasons = "; ".join(marks.remarks) or f"no function {exercise.id} was defined when the check cell ran"
        return Verdict.without_evidence(exercise, f"Nothing to judge: {reasons}.")
    try:
        evidences = accept.evidences(exercise.id, files, len(trials))
    except accept.TooMuch as error:
        marks.alarm(OTHER, exercise.id, str(error))
        return Verdict.without_evidence(exercise, f"Not judged: {error}. Is a call in a loop that should stand before it?")
    except accept.Malformed as error:
        marks.alarm(MALFORMED, exercise.id, f"malformed evidence: {error}")
        return Verdict.without_evidence(exercise, "The ranks' evidence was not accepted.")
    if any(evidence.messages and not evidence.messages.complete for evidence in evidences):
        marks.alarm(OTHER, exercise.id, "the network could not be read in full, so calls were held against totals only")
    if any(trial.case.weighed and evidence.loopback_bytes is not None and evidence.weights is None
           for trial, evidence in zip(trials, evidences, strict=False)):
        marks.alarm(OTHER, exercise.id, "the memory of its ranks could not be read from outside, so it was not judged by it")
    if not evidences:
        return Verdict.without_evidence(exercise, f"Nothing to judge: {problem or 'the ranks left nothing'}.")
    try:
        return judge(exercise, trials, evidences)
    except Exception as error:  # evidence that is well formed and yet makes no sense; nothing earned, and a reason
        where = traceback.extract_tb(error.__traceback__)[-1]
        marks.alarm(MALFORMED, exercise.id, f"evidence makes no sense: {type(error).__name__}: {error!s:.300}")
        return Verdict.without_evidence(exercise, f"What the ranks left makes no sense to the judge ({where.name}).")
