"""Where a marking's time goes: processor seconds of one submission, by step, on a machine that does nothing else."""

import time
from collections.abc import Callable

import nbformat
import psutil

from grader.calling.handing_out import given
from grader.course import mark, running
from grader.course.cell import is_solution, name_of
from grader.course.splice import steps_of
from grader.exercises import EXERCISES
from grader.exercises.references import ROOT
from grader.sandbox import bubblewrap

UNITS = ("01_collectives", "05_zero3", "07_pipeline_parallel")


def bench_profile() -> None:
    """Processor seconds of one marking by step, of a whole unit with every exercise solved."""
    for label in ("the first sandbox", "another"):
        cpu_s, wall_s, _ = _timed(lambda: bubblewrap.run(["-c", "import torch"], b"", may_isolate=True))
        print(f"     {label}, with a program that needs torch: {cpu_s:.2f} s of processor time, {wall_s:.2f} s")
    for unit in UNITS:
        steps = _steps_of(unit)
        print(f"     {unit}: " + ", ".join(f"{step} {cpu_s:.1f} s ({wall_s:.1f} s)" for step, cpu_s, wall_s in steps))


def _steps_of(unit: str) -> list[tuple[str, float, float]]:
    """(step, processor seconds, seconds) of marking the reference solutions."""
    notebook = _solved(unit)
    exercises = [exercise for exercise in EXERCISES.values() if exercise.unit == unit]
    cells = _timed(lambda: running.run_cells(steps_of(notebook), exercises))
    trials = _timed(lambda: {exercise.id: exercise.trials(1, grading=True) for exercise in exercises})
    functions = {exercise.id: cells[2].versions(exercise.id)[0].function for exercise in exercises}
    cases = {exercise.id: [given(exercise.caller, trial.case) for trial in trials[2][exercise.id]] for exercise in exercises}
    marks = mark.Marks(seed=1)
    ranks = _timed(lambda: mark._run_functions(exercises, cases, functions, marks, False))
    judged = _timed(lambda: [mark._verdict(exercise, trials[2][exercise.id], mark._seen(
        exercise, cases[exercise.id], *ranks[2], marks), marks) for exercise in exercises])
    return [("cells in a kernel", *cells[:2]), ("drawing cases, oracles", *trials[:2]),
            (f"{sum(map(len, cases.values()))} cases on ranks", *ranks[:2]), ("judging", *judged[:2])]


def _timed(work: Callable) -> tuple[float, float, object]:
    """(the machine's processor seconds meanwhile, seconds, result)"""
    began_s, before_s = time.monotonic(), _busy_s()
    result = work()
    return _busy_s() - before_s, time.monotonic() - began_s, result


def _busy_s() -> float:
    """Of all processes: those of a sandbox are ended from outside, and then nobody is told what they used."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system


def _solved(unit: str) -> nbformat.NotebookNode:
    notebook, source = (nbformat.read(ROOT / folder / unit / f"{unit}.ipynb", as_version=4)
                        for folder in ("notebooks", "solutions"))
    solutions = {name_of(cell): cell.source for cell in source.cells if is_solution(cell)}
    for cell in notebook.cells:
        cell.source = solutions.get(name_of(cell), cell.source) if is_solution(cell) else cell.source
    return notebook
