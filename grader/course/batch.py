"""Autograde many submissions side by side; can be interrupted and called again, nothing is lost or marked twice."""

import argparse
import contextlib
import errno
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import nbformat
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from tqdm import tqdm

from grader.course import cluster, pool
from grader.course.again import ANEW, Again, put_beside, record_in
from grader.course.cell import exercise_of, is_check
from grader.course.course_file import BadCourseFile, course_if_any, nearest
from grader.course.files import BadFile
from grader.course.folder import Course, CourseError, Submission, called
from grader.course.gradebook import keep, register, scores
from grader.course.journal import Busy, Journal, Result, code_digest, digest_of
from grader.course.late import enter_penalty
from grader.course.shown import plain, shorten
from grader.sandbox import bubblewrap as sandbox

OF_THE_GRADEBOOK = (OperationalError, InterfaceError)  # locked, out of reach, on a full disk
OF_EVERYBODY = (Busy, cluster.ClusterError, sandbox.NoSandbox, BadCourseFile, *OF_THE_GRADEBOOK)
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
LONGEST_ALARM = 80  # in the line of a submission; the report has all of it
Others = Sequence[tuple[str, bytes]]
Workers = pool.Pool | cluster.Cluster


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
    parser.add_argument("--exercise", action="append", default=[], metavar="NAME",
                        help="mark only this one again, and leave the others' marks; may be repeated")
    cases = parser.add_mutually_exclusive_group()
    cases.add_argument("--seed", type=int, help="draw the cases from this number, such as a record names")
    cases.add_argument("--same-cases", action="store_true", help="draw each submission's cases as when it was last marked")
    parser.add_argument("--yes", action="store_true",
                        help="keep the changes of --regrade, --exercise or --same-cases without asking")
    parser.add_argument("--unsafe", action="store_true",
                        help="without a sandbox: students' code can then read, change and send away whatever you can")


@dataclass
class Job:
    """One submission that is to be marked, or whose result waits for the gradebook since marking was interrupted.

    again: what of it, and on which cases, where it is not all of it on fresh ones.
    """

    submission: Submission
    released: bytes
    journal: Journal
    result: Result | None = None
    again: Again = ANEW

    @property
    def points(self) -> dict[str, float]:
        """Of the exercises that were to be marked."""
        return {name: points for name, points in self.result.points.items() if self.again.asks_for(name)}


@dataclass
class Work:
    """What is to be done, what is done already, and what cannot be done."""

    jobs: list[Job] = field(default_factory=list)
    unchanged: list[Submission] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # see Course.names

    def called(self, student: str) -> str:
        return called(plain(student), self.names)

    def add_problems(self, problems: Iterable[str]) -> None:
        """Each once: some are found with every unit."""
        self.problems += [problem for problem in problems if problem not in self.problems]

    @contextlib.contextmanager
    def only(self, submission: Submission, what: str) -> Iterator[None]:
        """An error within is a problem of this submission and stops no other, unless it would meet every other one too."""
        try:
            yield
        except Exception as error:
            if isinstance(error, OF_EVERYBODY) or (isinstance(error, OSError) and error.errno in OF_THE_DISK):
                raise
            self.problems.append(f"{submission} {what}: {_in_words(error)}")


def run(arguments: argparse.Namespace) -> int:
    """0: all is marked. 1: something could not be. 2: refused. 130: interrupted."""
    with contextlib.ExitStack() as locks:
        try:
            course, work = Course(arguments.db), Work()
            course_if_any(course.root)  # what is wrong with it is said before anything is marked
            released = course.units("release_directory")
            handed_in = [unit for unit in released if course.folders("submitted_directory", unit=unit)]
            units = [arguments.unit] if arguments.unit else handed_in
            if not units:
                raise _nothing(course, "anything", "<unit>")
            if arguments.exercise and not arguments.unit:
                raise CourseError("--exercise marks an exercise of one unit: name the unit, too, as in `python -m grader "
                                  f"autograde {units[0]} --exercise {arguments.exercise[0]}`")
            arguments.regrade |= bool(arguments.exercise)
            for unit in units:
                try:
                    _plan(work, course, unit, arguments, locks)
                except (CourseError, BadFile) as error:
                    if arguments.unit:
                        raise
                    work.add_problems([str(error)])  # the other units can be marked
            seconds = _grade(work, course, arguments)
        except (CourseError, BadFile, SQLAlchemyError, OSError, *OF_EVERYBODY) as error:
            goes_on = ". What was marked is not lost: the same command goes on from here" if isinstance(
                error, (SQLAlchemyError, OSError)) else ""
            print(f"Nothing more was marked: {plain(_in_words(error))}{goes_on}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("\nInterrupted. What was marked is kept; the same command goes on from here.", file=sys.stderr)
            return 130
        return _conclude(work, units, seconds)


def _nothing(course: Course, what: str, unit: str) -> CourseError:
    place = course.folder("submitted_directory", "<student>", unit)
    return CourseError(f"nobody has handed in {what}: submissions belong at {place}/{unit}.ipynb")


def _plan(work: Work, course: Course, unit: str, arguments: argparse.Namespace, locks: contextlib.ExitStack) -> None:
    """Add what is to be done for one unit."""
    released = course.released(unit)
    _refuse_unknown(arguments.exercise, unit, released)
    journal = Journal(course.root / "marking" / unit)
    locks.enter_context(journal.alone())
    if register(course, unit):
        print(f"The gradebook did not know {unit}: entered.")
    submissions, problems = course.submissions(unit, course.by_names(unit, arguments.student))
    if not submissions and not problems:
        raise _nothing(course, unit, unit)
    work.add_problems(problems)
    known, code = scores(course, unit), code_digest()
    for submission in submissions:
        with work.only(submission, "could not be read"):
            student, digest = submission.student, _digest(submission, *submission.contents(), released)
            kept = student in known and journal.is_kept(student, digest, course.db_url)
            if kept and not arguments.regrade:
                work.unchanged.append(submission)
                continue
            record = record_in(course.folder("autograded_directory", student, unit), unit)
            if arguments.exercise and not (kept and record):
                work.problems.append(f"{submission} is not marked yet, or it or the released notebook has changed since: "
                                     "mark all of it first, with the same command without --exercise")
                continue
            again = _again(arguments, record)
            work.jobs.append(Job(submission, released, journal, journal.pending(student, digest, code, again.digest), again))


def _refuse_unknown(exercises: list[str], unit: str, released: bytes) -> None:
    """Raises: CourseError for an exercise that the unit does not mark."""
    if exercises:
        known = [exercise_of(cell) for cell in nbformat.reads(released.decode(), as_version=4).cells if is_check(cell)]
        for name in exercises:
            if name not in known:
                raise CourseError(f"{unit} marks no exercise called {name!r}; it marks {', '.join(known)}"
                                  f"{nearest(name, known)}")


def _again(arguments: argparse.Namespace, record: dict | None) -> Again:
    """What is asked for of a submission. record: of the last time, None if it was not marked, or if that cannot be read."""
    only = tuple(arguments.exercise)
    counts = record.get("counts") if record and only else None
    if record and arguments.same_cases:
        return Again(only, record["seed"], record.get("seeds", {}), counts)
    return Again(only, arguments.seed, {}, counts)


def _grade(work: Work, course: Course, arguments: argparse.Namespace) -> float:
    """Mark and keep what there is; the seconds it took."""
    began = time.monotonic()
    ready = [job for job in work.jobs if job.result is not None]
    todo = [job for job in work.jobs if job.result is None]
    if todo and not (arguments.unsafe or arguments.scheduler):
        sandbox.require()
    if arguments.unsafe:
        print("Without a sandbox: the code of the submissions can do whatever you can.", file=sys.stderr)
    if todo and (done := len(work.unchanged) + len(ready)):
        print(f"{done} of {done + len(todo)} are marked; {len(todo)} left.", flush=True)
    work.names = course.names()
    _enter_penalties(work, course)
    asks = arguments.regrade or arguments.same_cases
    for job in itertools.chain(ready, _mark(todo, work, arguments)):
        if not asks:
            _keep(work, course, job)
    if asks:
        _keep_changes(work, course, arguments.yes)
    return time.monotonic() - began


def _enter_penalties(work: Work, course: Course) -> None:
    """Of those who are not marked again, by course.toml as it is now; say whose changed."""
    changed = []
    for submission in work.unchanged:
        with work.only(submission, "is marked, but what being late costs could not be entered"):
            before, now = (round(points, 2) for points in enter_penalty(course, submission.student, submission.unit))
            if before != now:
                changed.append(f"{work.called(submission.student)} {before:g} → {now:g}")
    if changed:
        print(f"{len(changed)} penalt{'y' if len(changed) == 1 else 'ies'} changed: {'; '.join(changed)}")


def _keep(work: Work, course: Course, job: Job) -> None:
    """A result that cannot be kept does not come back: the next run marks the submission again."""
    kept = False
    with work.only(job.submission, "was marked, but its marks could not be kept"):
        folder = course.folder("autograded_directory", job.submission.student, job.submission.unit)
        result = put_beside(folder, job.result, job.again.only) if job.again.only else job.result
        keep(course, job.submission, result, job.journal)
        kept = True
    if not kept:
        job.result = None
        with contextlib.suppress(OSError):
            job.journal.drop(job.submission.student)


def _mark(jobs: list[Job], work: Work, arguments: argparse.Namespace) -> Iterator[Job]:
    """Jobs as their results come, each in the journal and with its line; what cannot be marked is added to the problems.

    Where the machine was too busy for what a clock decides, a job comes last, when it was marked once more with none beside.
    """
    if not jobs:
        return
    peak_bytes, again = 0, []
    bar = tqdm(total=len(jobs), disable=None, smoothing=0.1,
               bar_format="marking {n_fmt}/{total_fmt} |{bar}| {elapsed} gone, about {remaining} to go")
    with _workers(arguments, len(jobs)) as workers, bar, ticking(bar):
        progress = Progress(bar, work.called)
        for job in _results(workers, jobs, work, arguments.unsafe, progress):
            peak_bytes = max(peak_bytes, job.result.record["peak_bytes"])
            if job.result.record.get("too_busy"):
                again.append(job)
            else:
                yield job
        for job in again:
            first, names = job.result, ", ".join(job.result.record["too_busy"])
            _say(f"The machine was too busy to judge {names} of {plain(str(job.submission))}: marked once more, alone.")
            bar.total += 1
            for _ in _results(workers, [job], work, arguments.unsafe, progress):
                pass
            if job.result is None or sum(job.points.values()) < sum(first.points.values()):
                job.result = first
                job.journal.put(first)
            yield job
        on_workers = f", a worker's own process {_gib(workers.worker_peak_bytes())}" if arguments.scheduler else ""
        allowed = _gib(sandbox.Limits().memory_bytes)
        _say(f"Peak memory: a sandbox {_gib(peak_bytes)} of the {allowed} it may use{on_workers}.")


@contextlib.contextmanager
def ticking(bar: tqdm, every_s: float = 1.0) -> Iterator[None]:
    """Its clock goes on while no submission is done, so that a person sees that marking goes on."""
    done = threading.Event()

    def tick() -> None:
        while not done.wait(every_s):
            bar.refresh()

    bar.refresh()
    clock = threading.Thread(target=tick, daemon=True)
    if not bar.disable:
        clock.start()
    try:
        yield
    finally:
        done.set()
        if not bar.disable:
            clock.join()


def _workers(arguments: argparse.Namespace, most: int) -> contextlib.AbstractContextManager[Workers]:
    """Those of a cluster, or so many of this machine."""
    if arguments.scheduler:
        return cluster.connect(arguments.scheduler)
    return pool.Pool(min(arguments.workers or pool.default_workers(), most))


def _results(workers: Workers, jobs: list[Job], work: Work, unsafe: bool, progress: "Progress") -> Iterator[Job]:
    """Those that got a result, as it comes."""
    for (job, digest), marked in workers.mark_all(_tasks(jobs, work, progress.bar), unsafe):
        progress.done()
        if isinstance(marked, str):
            work.problems.append(f"{job.submission} could not be marked: {marked}")
            _say(progress.line(job.submission, f"not marked: {shorten(marked, 200)}"))
            continue
        job.result = None
        with work.only(job.submission, "was marked, but the result is not as it must be"):
            notebook, record = marked
            result = Result(job.submission.student, job.submission.unit, digest, code_digest(),
                            notebook.decode(), record, job.again.digest)
            job.journal.put(result)
            _say(progress.line(job.submission, in_short(record, job.again.only)))
            job.result = result
        if job.result is not None:
            yield job


def _tasks(jobs: list[Job], work: Work, bar: tqdm) -> Iterator[pool.Task]:
    """What is sent, read when it is needed."""
    for job in jobs:
        task = None
        with work.only(job.submission, "could not be read"):
            content, others = job.submission.contents()
            name = job, _digest(job.submission, content, others, job.released)
            task = pool.Task(name, content, job.released, others, job.submission.found, job.again,
                             job.submission.called(job.submission.path))
        if task:
            yield task
        else:
            bar.total -= 1


def _digest(submission: Submission, content: bytes, others: Others, released: bytes) -> str:
    """Of all that a mark depends on: the other notebooks, and the time of handing in, where it is known, too."""
    return digest_of(content, released, *([str(submission.handed_in).encode()] if submission.handed_in else []),
                     *itertools.chain.from_iterable((name.encode(), content) for name, content in others))


def _keep_changes(work: Work, course: Course, yes: bool) -> None:
    """Print what changes; keep it unless the person at the terminal says no."""
    jobs = [job for job in work.jobs if job.result is not None]
    if not jobs:
        return
    before = {unit: scores(course, unit) for unit in {job.submission.unit for job in jobs}}
    changes = []
    for job in sorted(jobs, key=lambda job: str(job.submission)):
        student = job.submission.student
        old_points = before[job.submission.unit].get(student, {})
        for exercise, points in job.points.items():
            old = old_points.get(exercise)
            if old != points:
                before_it = "not marked" if old is None else f"{old:g}"
                changes.append(f"  {work.called(student):<20} {exercise:<28} {before_it} → {points:g}")
    print("\n".join(["What changes:", *changes] if changes else ["No mark changes."]))
    if changes and not yes and sys.stdin.isatty() and input("Keep these marks? [y/N] ").strip().lower() not in ("y", "yes"):
        for job in jobs:
            job.journal.drop(job.submission.student)
        print("Nothing was kept: the gradebook is as before.")
        return
    for job in tqdm(jobs, desc="keeping", unit="submission", disable=None if changes else True):
        _keep(work, course, job)


def _conclude(work: Work, units: list[str], seconds: float) -> int:
    parts = [f"{sum(job.result is not None for job in work.jobs)} marked in {_duration(seconds)}"]
    if work.unchanged:
        parts.append(f"{len(work.unchanged)} unchanged since they were marked")
    if work.problems:
        parts.append(f"{len(work.problems)} could not be marked")
    print(", ".join(parts) + ".")
    for problem in work.problems:
        print(f"  {plain(problem)}")
    print("To see how it went: " + ", ".join(f"python -m grader report {unit}" for unit in units))
    return 1 if work.problems else 0


class Progress:
    """How far a batch is: a bar; where none is shown (in a file), a line for each submission has what it would say."""

    def __init__(self, bar: tqdm, called: Callable[[str], str]):
        self.bar, self._called, self._number, self._began = bar, called, 0, time.monotonic()

    def done(self) -> None:
        self._number += 1
        self.bar.update()

    def line(self, submission: Submission, text: str) -> str:
        """For the submission that was done last."""
        total = self.bar.total
        left_s = (time.monotonic() - self._began) / self._number * (total - self._number)
        estimate = f"  (about {_duration(left_s)} to go)" if self.bar.disable and self._number < total else ""
        count = f"[{self._number:>{len(str(total))}}/{total}]"
        return f"{count} {self._called(submission.student):<16} {submission.unit}  {text}{estimate}"


def _say(text: str) -> None:
    """One line above the progress bar."""
    tqdm.write(plain(text))
    sys.stdout.flush()


def _in_words(error: Exception) -> str:
    """What an instructor reads of an error."""
    if isinstance(error, OF_THE_GRADEBOOK):
        return (f"the gradebook cannot be used ({error.orig!s:.300}): see that no other program writes to it and that the "
                "disk is not full")
    if isinstance(error, (CourseError, BadFile, *OF_EVERYBODY)):
        return str(error)
    if isinstance(error, SQLAlchemyError):
        return f"the gradebook refused it: {str(error).splitlines()[0]:.300}"
    return f"{type(error).__name__}: {error!s:.300}"


def in_short(record: dict, only: Sequence[str] = ()) -> str:
    """"46/52 points  21 s  2 exercises not full  look: …"; "ring_time 2/2 points  9 s" where only this was to be marked."""
    verdicts = [verdict for name, verdict in record["exercises"].items() if not only or name in only]
    points = f"{sum(v['points'] for v in verdicts):g}/{sum(v['max_points'] for v in verdicts):g} points"
    parts = [" ".join([", ".join(only), points]).strip(), f"{record['seconds']:.0f} s"]
    not_full = sum(verdict["points"] < verdict["max_points"] for verdict in verdicts)
    if not_full:
        parts.append(f"{not_full} exercise{'' if not_full == 1 else 's'} not full")
    parts += [f"look: {shorten(alarm['text'], LONGEST_ALARM)}" for alarm in record["alarms"][:1]]
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
