"""The page that a student gets back: points and reasons on the first screen, then each exercise's verdict."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry, SubmittedAssignment

from grader.contracts import contracts_of
from grader.course.autograde import reason
from grader.course.cell import exercise_of, is_check, is_solution, language_of, name_of
from grader.course.course_file import course_if_any
from grader.course.folder import Course
from grader.course.late import how_late
from grader.course.points import is_by_hand
from grader.course.requests import Request
from grader.course.shown import sentence
from grader.judging.html import fill_in
from utils.languages.choice import speaking

SOLUTION_LETTERS = 8_000  # of one cell, so that a page stays small


@dataclass(frozen=True)
class Row:
    """One exercise. verdict: as HTML, made by marking; comments: by hand; requests: what she asked about it; withdrawn:
    whether it counts nothing, which the reason says then."""

    exercise: str
    title: str
    points: str
    most: str
    reason: str
    verdict: Markup
    solution: str
    comments: tuple[str, ...] = ()
    by_hand: bool = False
    requests: tuple[Request, ...] = ()
    withdrawn: bool = False

    @property
    def is_answered(self) -> bool:
        return any(request.answer for request in self.requests)


def page_of(course: Course, gradebook: Gradebook, submission: SubmittedAssignment, requests: Sequence[Request],
            released: Mapping[str, str]) -> str | None:
    """The page of one marked submission; None where what marking wrote is gone. requests: the class's;
    released: exercise → its cell before a student wrote in it."""
    student, unit = submission.student, submission.assignment.name
    folder = course.folder("autograded_directory", student.id, unit)
    try:
        notebook = nbformat.read(folder / f"{unit}.ipynb", as_version=4)
        record = json.loads((folder / f"{unit}.marks.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    late = how_late(course_if_any(course.root), submission)
    with speaking(language_of(notebook)):
        return _page(notebook, record, gradebook, submission, requests, released, late)


def _page(notebook: NotebookNode, record: dict[str, Any], gradebook: Gradebook, submission: SubmittedAssignment,
          requests: Sequence[Request], released: Mapping[str, str], late: str) -> str:
    student, unit = submission.student, submission.assignment.name
    penalty = submission.late_submission_penalty or 0.0
    rows = list(_rows(notebook, record, gradebook, submission, requests, released))
    title = next((line.lstrip("# ") for cell in notebook.cells for line in cell.source.split("\n")
                  if cell.cell_type == "markdown" and line.startswith("# ")), unit)
    return fill_in(str(Path(__file__)), unit=unit, title=title, student=student.id, name=_name(student), rows=rows,
                   total=_number(max(0.0, submission.score - penalty)), most=_number(submission.max_score),
                   penalty=_number(penalty) if penalty else "", late=late,
                   remarks=[sentence(text) for text in record["remarks"]])


def _rows(notebook: NotebookNode, record: dict[str, Any], gradebook: Gradebook, submission: SubmittedAssignment,
          requests: Sequence[Request], released: Mapping[str, str]) -> Iterator[Row]:
    titles = {contract.name: contract.title for contract in contracts_of(notebook.cells)}
    solutions = {name: source for name, source in _solutions_in(notebook).items() if source != released.get(name)}
    grades = {grade.name: grade for one in submission.notebooks for grade in one.grades}
    for cell in filter(is_check, notebook.cells):
        exercise = exercise_of(cell)
        verdict, grade = record["exercises"].get(exercise), grades.get(name_of(cell))
        if grade is None:
            continue
        yield Row(exercise, titles.get(exercise, exercise), _number(grade.score), _number(grade.max_score),
                  _reason(verdict), _html_of(cell), solutions.get(exercise, "")[:SOLUTION_LETTERS],
                  _comments(gradebook, submission, exercise), is_by_hand(grade), tuple(
                      one for one in requests if (one.student, one.exercise) == (submission.student.id, exercise)),
                  not grade.max_score)


def solutions_in(notebook: Path) -> dict[str, str]:
    """Exercise → its cell; nothing of a notebook that is not there."""
    return _solutions_in(nbformat.read(notebook, as_version=4)) if notebook.is_file() else {}


def _solutions_in(notebook: NotebookNode) -> dict[str, str]:
    return {name_of(cell): cell.source for cell in notebook.cells if is_solution(cell)}


def _reason(verdict: dict[str, Any] | None) -> str:
    """As in the gradebook; where that has no hint, what the check says, if it is withdrawn too: this page escapes it."""
    if verdict is None or verdict["hints"]:
        return reason(verdict) or ""
    return verdict.get("problem") or reason(verdict) or ""


def _html_of(check: NotebookNode) -> Markup:
    """What marking put into a check cell; it wrote that itself, from templates."""
    return Markup("".join(output.get("data", {}).get("text/html", "") for output in check.outputs))


def _comments(gradebook: Gradebook, submission: SubmittedAssignment, exercise: str) -> tuple[str, ...]:
    unit = submission.assignment.name
    try:
        comment = gradebook.find_comment(exercise, unit, unit, submission.student.id)
    except MissingEntry:
        return ()
    return (comment.manual_comment,) if comment.manual_comment else ()


def _name(student: Any) -> str:
    return " ".join(filter(None, (student.first_name, student.last_name))) or student.id


def _number(value: float) -> str:
    return f"{round(value, 2):g}"
