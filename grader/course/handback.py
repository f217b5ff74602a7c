"""Give marks and feedback back: a table and an archive in the platform's layout, with penalties and points given by hand."""

import argparse
import sys
import zipfile
from pathlib import Path

from grader.contracts import contracts_in
from grader.course.again import record_in
from grader.course.course_file import BadCourseFile
from grader.course.folder import COLLECTED, Course
from grader.course.late import enter_penalty
from grader.course.platforms import PLATFORMS, BadTable, Mark, feedback_files, marks_table, most_in, roster
from grader.course.requests import Request, requests_for
from grader.course.shown import plain
from grader.course.student_page import page_of, solutions_in

HANDED_BACK = "handed_back"
MAXIMUM = {"moodle": "Unless you have done so since, set its *Maximum grade* to {most} in its settings there, without "
                     "rescaling grades, before you upload the marks.",
           "canvas": "Unless you have done so since, set its *Points* to {most} there before you import the marks."}
SECOND_UPLOAD = ("When you upload marks of this unit again, tick *Allow updating records that have been modified more "
                 "recently in Moodle than in the spreadsheet*, because Moodle otherwise leaves its newer grades alone.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("platform", choices=PLATFORMS)
    parser.add_argument("unit", help="for example 01_collectives")
    parser.add_argument("--roster", type=Path, metavar="FILE.csv",
                        help="the platform's table, if it was not given to collect: marks go into a copy of it")
    parser.add_argument("--title", help="the name of the assignment on the platform (default: the unit's)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be written")


def run(arguments: argparse.Namespace) -> int:
    """0: written. 2: refused."""
    course = Course()
    collected = course.root / COLLECTED / arguments.unit
    table = arguments.roster or collected / "roster.csv"
    places = course.places(arguments.unit)
    try:
        text = table.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        print(f"Nothing was written: {plain(str(error))}. `python -m grader collect {arguments.platform} FILE.zip "
              f"{arguments.unit} --roster FILE.csv` keeps what handing back needs", file=sys.stderr)
        return 2
    try:
        if not arguments.dry_run:  # points by hand change what being late costs
            with course.gradebook() as gradebook:
                students = [submission.student.id for submission in gradebook.assignment_submissions(arguments.unit)]
            for student in students:
                enter_penalty(course, student, arguments.unit)
        marks, requests = marks_of(course, arguments.unit, places)
        title = arguments.title or arguments.unit
        csv, most_there = marks_table(arguments.platform, title, marks, text), most_in(arguments.platform, title, text)
        people = {student.id: student.name for student in roster(arguments.platform, text)}
    except BadTable as error:
        print(f"Nothing was written: {table}: {plain(str(error))}", file=sys.stderr)
        return 2
    except BadCourseFile as error:
        print(f"Nothing was written: {plain(str(error))}", file=sys.stderr)
        return 2
    if outdated := [mark.student for mark in marks if mark.outdated]:
        print(f"Marked before points or exercises changed: {'; '.join(map(plain, outdated))}. `python -m grader autograde "
              f"{arguments.unit} --same-cases` marks these anew")
    without = [mark.student for mark in marks if not mark.feedback]
    most = sum(contract.points for contract in contracts_in(course.released_notebook(arguments.unit)))
    if most_there is not None and round(most_there, 2) != round(most, 2):
        print(f"When you downloaded the table, the assignment had {most_there:g} points on "
              f"{arguments.platform.capitalize()}, and the unit has {most:g}. "
              f"{MAXIMUM[arguments.platform].format(most=f'{most:g}')}")
    rows = csv.count("\n") - 1
    print(f"{arguments.unit}: {len(marks)} students with marks, {rows} of them in the table, feedback for "
          f"{len(marks) - len(without)}.")
    if nothing := [name for number, name in people.items() if number not in {mark.id for mark in marks}]:
        print(f"Without a notebook that was marked, and so not in the table ({len(nothing)}): "
              f"{'; '.join(map(plain, nothing))}")
    if elsewhere := [mark.student for mark in marks if mark.student not in {*places, *people}]:
        print(f"Not collected from {arguments.platform}: {'; '.join(map(plain, elsewhere))}. See to these by hand.")
    if without:
        print(f"No page for {'; '.join(map(plain, without))}: the marked notebook or its record is missing. "
              f"`python -m grader autograde {arguments.unit} --regrade` makes both")
    if unanswered := [f"{request.student} ({request.exercise})" for request in requests if not request.answer]:
        print(f"Requests without an answer: {'; '.join(map(plain, unanswered))}. `python -m grader report {arguments.unit}` "
              "shows them")
    if not arguments.dry_run:
        folder = course.root / HANDED_BACK / arguments.unit
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "marks.csv").write_text(csv, encoding="utf-8", newline="")
        with zipfile.ZipFile(folder / "feedback.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in feedback_files(arguments.platform, marks):
                archive.writestr(path, content)
        print(f"{folder / 'marks.csv'}\n{folder / 'feedback.zip'}")
        if arguments.platform == "moodle":
            print(SECOND_UPLOAD)
    return 0


def marks_of(course: Course, unit: str, places: dict[str, dict]) -> tuple[list[Mark], list[Request]]:
    """(the marks of everyone whom the gradebook has marked, what students asked to have looked at again)"""
    marks = []
    titles = {contract.name: contract.title for contract in contracts_in(course.released_notebook(unit))}
    released = solutions_in(course.released_notebook(unit))
    with course.gradebook() as gradebook:
        submissions = gradebook.assignment_submissions(unit)
        requests, _ = requests_for(course, unit, titles, [submission.student.id for submission in submissions])
        for submission in submissions:
            student, penalty = submission.student.id, submission.late_submission_penalty or 0.0
            page = page_of(course, gradebook, submission, requests, released)
            place = places.get(student, {"id": student, "place": student})
            record = record_in(course.folder("autograded_directory", student, unit), unit)
            grades = {grade.name.removesuffix("_check"): grade.max_score
                      for one in submission.notebooks for grade in one.grades}
            outdated = bool(record) and {name: v.get("max_points") for name, v in record["exercises"].items()} != grades
            marks.append(Mark(place["id"], max(0.0, submission.score - penalty), submission.max_score,
                              page.encode() if page else b"", place["place"], student, outdated))
    return marks, requests
