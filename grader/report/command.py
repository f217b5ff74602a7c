"""What a unit's marks say: points, commonest symptoms, times, and what needs a person's look."""

import argparse
import contextlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from grader.contracts import contracts_in
from grader.course.alarms import OTHER, Alarm
from grader.course.cell import name_of
from grader.course.course_file import BadCourseFile, course_if_any
from grader.course.folder import COLLECTED, Course, called, chosen
from grader.course.late import penalty_in_words
from grader.course.platforms import PLATFORMS, BadTable, roster
from grader.course.points import by_hand
from grader.course.requests import requests_for
from grader.course.shown import plain
from grader.report.likeness import Pair, near_identical
from grader.report.records import UNREADABLE, Submission, code_cells, one_line, read_sources, read_submission
from grader.report.tally import summarise
from grader.report.terminal import as_text

NARROWEST = 60
OUTDATED = "marked before points changed: `python -m grader autograde {} --same-cases` marks it anew"
FAILED, MISUSED = 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("unit", help="the unit's folder name, such as 01_collectives")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the files go (reports/UNIT in the course folder)")
    parser.add_argument("--student", action="append", default=[], metavar="NAME",
                        help="only this one, or a pattern such as 'a*'; may be repeated; writes files only with --out")
    parser.add_argument("--db", default="", metavar="URL", help="the gradebook, e.g. postgresql+psycopg://user@host/course")


def run(arguments: argparse.Namespace) -> int:
    """Print the report and write its files; the exit code."""
    course, unit = Course(arguments.db), arguments.unit
    units = course.units("source_directory", "release_directory")
    if unit not in units:
        there_are = ", ".join(units) or "none; run this in the course's folder"
        return _complain(MISUSED, f"There is no unit {unit!r} in {course.root}. Units: {there_are}.")
    marked = course.folders("autograded_directory", unit=unit)
    not_readable = course.not_readable(unit)
    everyone = sorted({*marked, *course.folders("submitted_directory", unit=unit), *not_readable})
    students = chosen(everyone, course.by_names(unit, arguments.student))
    if arguments.student and not students:
        return _complain(MISUSED, f"Nobody called {' or '.join(arguments.student)} handed in {unit}.")
    submissions = [read_submission(student, marked.get(student), unit, not_readable.get(student, ""))
                   for student in everyone]
    if all(submission.not_marked for submission in submissions):
        return _complain(FAILED, f"Nothing is marked yet: run `python -m grader autograde {unit}` first.",
                         *(f"  {submission.student}: {submission.not_marked}" for submission in submissions))
    contracts = contracts_in(course.released_notebook(unit))
    submissions = _with_outdated(unit, submissions, {contract.name: contract.points for contract in contracts})
    submissions = _with_the_gradebook(course, unit, submissions)
    paths = {contract.name: contract.path for contract in contracts}
    requests, wrong = requests_for(course, unit, {contract.name: contract.title for contract in contracts}, marked)
    summary = summarise(unit, submissions, *_alike(course, unit, marked, submissions), students, paths)
    summary = replace(summary, requests=tuple(request for request in requests if request.student in students),
                      bad_requests=tuple(wrong) if summary.whole_class else ())
    print(as_text(summary, max(NARROWEST, shutil.get_terminal_size((110, 24)).columns)))
    if arguments.out or not arguments.student:
        from grader.report.files import write_files, write_marks  # they draw: without them nobody waits for matplotlib

        folder = arguments.out or course.root / "reports" / unit
        names = write_files(summary, folder)
        no_marks = write_marks(course, summary, folder / "marks.csv", _taking_part(course, unit))
        print(f"\nFiles in {folder}: {', '.join(names if no_marks else [*names, 'marks.csv'])}")
        if no_marks:
            print(f"No marks.csv: {no_marks}.")
    return 0


def _taking_part(course: Course, unit: str) -> set[str]:
    """Whom the unit's platform knows, by what `collect` kept."""
    known, table = {*course.places(unit)}, course.root / COLLECTED / unit / "roster.csv"
    for platform in PLATFORMS:
        with contextlib.suppress(BadTable, OSError, UnicodeDecodeError):
            known |= {student.key for student in roster(platform, table.read_text(encoding="utf-8"))}
    return known


def _with_the_gradebook(course: Course, unit: str, submissions: list[Submission]) -> list[Submission]:
    """With what it knows beside the judge's records: names, what being late costs, points by hand; as they are, if it cannot
    be read."""
    if not course.has_gradebook:
        return submissions
    with contextlib.suppress(SQLAlchemyError, ImportError, BadCourseFile):
        names, assigned = course.names(), course_if_any(course.root)
        with course.gradebook() as gradebook:
            entered = {one.student.id: one for one in gradebook.assignment_submissions(unit)}
            late = {student: penalty_in_words(assigned, one)
                    for student, one in entered.items() if one.late_submission_penalty}
            hands = {student: by_hand(one) for student, one in entered.items()}
        return [replace(one, late=late.get(one.student, ""), called=called(one.student, names), outcomes={
            name: replace(outcome, by_hand=hands.get(one.student, {}).get(name)) for name, outcome in one.outcomes.items()})
            for one in submissions]
    return submissions


def _with_outdated(unit: str, submissions: Sequence[Submission], points: Mapping[str, float]) -> list[Submission]:
    """With an alarm for each that has other points than the released notebook. points: exercise -> what it has there."""
    return [replace(one, alarms=(*one.alarms, Alarm(OTHER, OUTDATED.format(unit)))) if any(
        points.get(name, outcome.max_points) != outcome.max_points for name, outcome in one.outcomes.items()) else one
        for one in submissions]


def _alike(course: Course, unit: str, marked: Mapping[str, Path],
           submissions: Sequence[Submission]) -> tuple[list[Pair], dict[str, str]]:
    """(near-identical pairs among all who are marked, who could not be compared and why)"""
    students = [submission.student for submission in submissions if not submission.not_marked]
    try:
        notebook = course.released_notebook(unit)
        released = {name_of(cell): cell.source for cell in code_cells(notebook)}
    except UNREADABLE as error:
        return [], dict.fromkeys(students, f"the released notebook cannot be read: {one_line(str(error))}")
    written, unread = {}, {}
    for student in students:
        try:
            written[student] = read_sources(marked[student] / f"{unit}.ipynb", released)
        except UNREADABLE as error:
            unread[student] = f"the marked notebook cannot be read: {one_line(str(error))}"
    return near_identical(written, released.values()), unread


def _complain(code: int, *lines: str) -> int:
    print("\n".join(plain(line) for line in lines), file=sys.stderr)
    return code
