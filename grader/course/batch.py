"""Autograde many submissions side by side; can be interrupted and called again, nothing is lost or marked twice."""

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tqdm import tqdm

from grader.course import cluster
from grader.course.folder import Course, CourseError, Submission
from grader.course.gradebook import keep, register, scores
from grader.course.journal import Busy, Journal, Result, digest_of
from grader.sandbox import bubblewrap as sandbox

REFUSALS = (CourseError, Busy, cluster.ClusterError, sandbox.NoSandbox)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("unit", nargs="?", help="for example 01_collectives; every unit that was handed in, if left out")
    parser.add_argument("--student", action="append", default=[],
                        help="only this one, or a pattern such as 'a*'; may be repeated")
    parser.add_argument("--workers", type=_positive,
                        help="how many to mark at once on this machine (default: cores, and memory for them)")
    parser.add_argument("--scheduler", default="", metavar="ADDRESS",
                        help="mark on this Dask cluster instead, e.g. tcp://host:8786")
    parser.add_argument("--db", default="", metavar="URL",
                        help="the gradebook, e.g. postgresql+psycopg://user@host/course")
    parser.add_argument("--regrade", action="store_true",
                        help="mark again what is marked; print what changes before it is kept")
    parser.add_argument("--yes", action="store_true", help="keep the changes of --regrade without asking")
    parser.add_argument("--unsafe", action="store_true",
                        help="without a sandbox: students' code can then read, change and send away whatever you can")


@dataclass
class Unit:
    """What is to be done for one unit."""

    name: str
    released: bytes
    journal: Journal
    todo: list[Submission] = field(default_factory=list)
    ready: list[tuple[Submission, Result]] = field(default_factory=list)
    unchanged: list[Submission] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def run(arguments: argparse.Namespace) -> int:
    """0: all is marked. 1: something could not be. 2: refused. 130: interrupted."""
    with contextlib.ExitStack() as stack:
        try:
            course = Course(arguments.db)
            units = [_plan(course, name, arguments, stack) for name in _names(course, arguments)]
            return _grade(course, units, arguments)
        except REFUSALS as error:
            print(f"Nothing more was marked: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("\nInterrupted. What was marked is kept; the same command goes on from here.", file=sys.stderr)
            return 130


def _names(course: Course, arguments: argparse.Namespace) -> list[str]:
    names = [arguments.unit] if arguments.unit else course.units()
    if not names:
        raise CourseError(f"nobody has handed in anything: submissions belong at "
                          f"{course.folder('submitted_directory', '<student>', '<unit>')}/<unit>.ipynb")
    return names


def _plan(course: Course, name: str, arguments: argparse.Namespace, stack: contextlib.ExitStack) -> Unit:
    """What is marked already, what waits for the gradebook, what is to be marked."""
    unit = Unit(name, course.released(name), Journal(course.root / "marking" / name))
    stack.enter_context(unit.journal.alone())
    if register(course, name):
        print(f"The gradebook did not know {name}: entered.")
    submissions, unit.problems = course.submissions(name, arguments.student)
    known, code = scores(course, name), cluster.code_digest()
    for submission in submissions:
        digest = digest_of(submission.path.read_bytes(), unit.released)
        result = unit.journal.pending(submission.student, digest, code)
        kept = unit.journal.is_kept(submission.student, digest, course.db_url) and submission.student in known
        if kept and not arguments.regrade:
            unit.unchanged.append(submission)
        elif result is not None:
            unit.ready.append((submission, result))
        else:
            unit.todo.append(submission)
    if not submissions and not unit.problems:
        raise CourseError(f"nobody has handed in {name}: submissions belong at "
                          f"{course.folder('submitted_directory', '<student>', name)}/{name}.ipynb")
    return unit


def _grade(course: Course, units: list[Unit], arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    if any(unit.todo for unit in units) and not (arguments.unsafe or arguments.scheduler):
        sandbox.require()
    if arguments.unsafe:
        print("Without a sandbox: the code of the submissions can do whatever you can.", file=sys.stderr)
    fresh = [(unit, submission, result) for unit in units for submission, result in unit.ready]
    if not arguments.regrade:
        for unit, submission, result in fresh:
            keep(course, submission, result, unit.journal)
    for unit, submission, result in _mark(units, arguments):
        fresh.append((unit, submission, result))
        if not arguments.regrade:
            keep(course, submission, result, unit.journal)
    if arguments.regrade and fresh:
        _keep_changes(course, fresh, arguments.yes)
    return _conclude(units, fresh, time.monotonic() - began)


def _mark(units: list[Unit], arguments: argparse.Namespace) -> Iterator[tuple[Unit, Submission, Result]]:
    """Results as they come, each in the journal and with its line; what cannot be marked goes into its unit's problems."""
    jobs = [(unit, submission) for unit in units for submission in unit.todo]
    if not jobs:
        return
    code, peak_bytes, lines = cluster.code_digest(), 0, _Lines(len(jobs))
    workers = min(arguments.workers or cluster.default_workers(), len(jobs))
    with cluster.connect(arguments.scheduler, workers) as client, lines:
        for done in cluster.mark_all(client, map(_task, jobs), arguments.unsafe):
            unit, submission, digest = done.name
            if done.record is None:
                unit.problems.append(f"{submission} could not be marked: {done.problem}")
                lines.write(submission, f"not marked: {done.problem:.200}")
                continue
            if submission.remark:
                done.record["remarks"].insert(0, submission.remark)
            result = Result(submission.student, unit.name, digest, code, done.notebook.decode(), done.record)
            unit.journal.put(result)
            peak_bytes = max(peak_bytes, done.record["peak_bytes"])
            lines.write(submission, _in_short(done.record))
            yield unit, submission, result
        lines.say(f"Peak memory: a sandbox {_gib(peak_bytes)} of the {_gib(sandbox.Limits().memory_bytes)} it may use, "
                  f"a worker's own process {_gib(cluster.worker_peak_bytes(client))}.")


def _task(job: tuple[Unit, Submission]) -> cluster.Task:
    unit, submission = job
    content = submission.path.read_bytes()
    return cluster.Task((unit, submission, digest_of(content, unit.released)), content, unit.released)


def _keep_changes(course: Course, fresh: list[tuple[Unit, Submission, Result]], yes: bool) -> None:
    """Print what changes; keep it unless the person at the terminal says no."""
    before = {name: scores(course, name) for name in {unit.name for unit, _, _ in fresh}}
    changes = [line for unit, submission, result in sorted(fresh, key=lambda marked: str(marked[1]))
               for line in _changes(submission, before[unit.name].get(submission.student, {}), result)]
    print("\n".join(["What changes:", *changes] if changes else ["No mark changes."]))
    if changes and not yes and sys.stdin.isatty() and input("Keep these marks? [y/N] ").strip().lower() not in ("y", "yes"):
        for unit, submission, _ in fresh:
            unit.journal.drop(submission.student)
        print("Nothing was kept: the gradebook is as before.")
        return
    for unit, submission, result in tqdm(fresh, desc="keeping", unit="submission", disable=None):
        keep(course, submission, result, unit.journal)


def _changes(submission: Submission, before: dict[str, float], result: Result) -> Iterator[str]:
    for exercise, points in result.points.items():
        old = before.get(exercise)
        if old != points:
            yield f"  {submission.student:<20} {exercise:<28} {'not marked' if old is None else f'{old:g}'} → {points:g}"


def _conclude(units: list[Unit], fresh: list[tuple[Unit, Submission, Result]], seconds: float) -> int:
    problems = [problem for unit in units for problem in unit.problems]
    unchanged = sum(len(unit.unchanged) for unit in units)
    print(f"{len(fresh)} marked in {_duration(seconds)}"
          + f", {unchanged} unchanged since they were marked" * bool(unchanged)
          + f", {len(problems)} could not be marked" * bool(problems) + ".")
    for problem in problems:
        print(f"  {problem}")
    print("To see how it went: " + ", ".join(f"python -m grader report {unit.name}" for unit in units))
    return 1 if problems else 0


class _Lines:
    """A line for each submission as it is done, above a progress bar (in a file: with what the bar would say)."""

    def __init__(self, total: int):
        self._total, self._done, self._began = total, 0, time.monotonic()
        self._bar = tqdm(total=total, disable=None, smoothing=0.1,
                         bar_format="marking {n_fmt}/{total_fmt} |{bar}| {elapsed} gone, about {remaining} to go")

    def __enter__(self) -> None:
        self._bar.refresh()

    def __exit__(self, *_) -> None:
        self._bar.close()

    def write(self, submission: Submission, text: str) -> None:
        self._done += 1
        self._bar.update()
        left_s = (time.monotonic() - self._began) / self._done * (self._total - self._done)
        estimate = f"  (about {_duration(left_s)} to go)" if self._bar.disable and self._done < self._total else ""
        count = f"[{self._done:>{len(str(self._total))}}/{self._total}]"
        self.say(f"{count} {submission.student:<16} {submission.unit}  {text}{estimate}")

    def say(self, text: str) -> None:
        tqdm.write(text)
        sys.stdout.flush()


def _in_short(record: dict) -> str:
    """"46/52 points  21 s  2 exercises not full  1 alarm"."""
    verdicts = record["exercises"].values()
    not_full = sum(verdict["points"] < verdict["max_points"] for verdict in verdicts)
    parts = [f"{sum(v['points'] for v in verdicts):g}/{sum(v['max_points'] for v in verdicts):g} points",
             f"{record['seconds']:.0f} s"]
    parts += [f"{not_full} exercise{'s' * (not_full != 1)} not full"] * bool(not_full)
    parts += [f"look: {alarm['text']:.80}" for alarm in record["alarms"][:1]]
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f} GiB"


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {text}")
    return value
