"""Make students' notebooks as course.toml assigns them, after saying what they get and what is otherwise than before."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import MissingEntry

from grader.contracts import CHALLENGE, CORE, contracts_of
from grader.course.assigning import assigned, graded, local
from grader.course.changed import changes, cost_in_words, exercise_changes, extension_of, total_change
from grader.course.course_file import NAME, Assigned, BadCourseFile, CourseFile, course_if_any, course_in
from grader.course.folder import Course
from grader.course.release import CannotRelease, refuse_wrong_marks, release

SOURCES, RELEASED = "assigned/solutions", "assigned/notebooks"  # where nbgrader's configuration looks, with a course.toml
LAST_TIME = f"assigned/{NAME}"  # as it was then


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what students would get")


def run(arguments: argparse.Namespace) -> int:
    """0: released. 1: nbgrader could not. 2: refused, and nothing was changed."""
    folder = Course()
    root = folder.root
    try:
        course = course_in(root)
        solutions = {unit: _solutions(root, unit) for unit in course.units}
        shaped = {unit: assigned(solutions[unit], what, course) for unit, what in course.units.items()}
        lines = [line for unit, what in course.units.items()
                 for line in preview(course, what, shaped[unit], graded(solutions[unit]))]
        lines += [*_about_time(course), *_since_last_time(root, course, shaped)]
        _refuse_lost_marks(folder, shaped)
    except (BadCourseFile, CannotRelease) as error:
        print(f"Nothing was changed: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    if arguments.dry_run:
        return 0
    for unit, notebook in shaped.items():
        file = root / SOURCES / unit / f"{unit}.ipynb"
        file.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, file)
    try:
        release(root, list(shaped), RELEASED)
    except CannotRelease as error:
        print(f"The notebooks of the last release are unchanged: {error}", file=sys.stderr)
        return 1
    for unit in shaped:
        with folder.gradebook() as gradebook:  # where nbgrader's own steps and formgrader look for it
            gradebook.update_or_create_assignment(unit, duedate=course.units[unit].due)
        print(f"{RELEASED}/{unit}")
    (root / LAST_TIME).write_bytes((root / NAME).read_bytes())
    return 0


def preview(course: CourseFile, unit: Assigned, notebook: NotebookNode, own: Mapping[str, float]) -> Iterator[str]:
    """What a unit asks of students, line by line. own: exercise → its points where course.toml says nothing of them."""
    known, now = {contract.name: contract for contract in contracts_of(notebook.cells)}, graded(notebook)
    minutes = sum(known[name].minutes for name in now)
    due = f", due {local(unit.due, course)}" if unit.due else ", no due date"
    signs = {CORE: " ★", CHALLENGE: " (c)"}
    yield f"{unit.unit}: {len(now)} exercises, {minutes} minutes of writing, {sum(now.values()):g} points{due}"
    for name, points in now.items():
        remark = "withdrawn" if name in course.withdrawn else "" if points == own[name] else f"{own[name]:g} by default"
        signed = f"{name}{signs.get(known[name].path, '')}"
        yield f"  {signed:<28} {points:>3g} points  {known[name].minutes:>3} min  {remark}".rstrip()


def _about_time(course: CourseFile) -> Iterator[str]:
    """What being late costs, and who may be."""
    yield f"being late: {cost_in_words(course.late)}"
    for who, until in course.extensions.items():
        yield f"{extension_of(*who)}: {local(until, course)}"


def _since_last_time(root: Path, course: CourseFile, shaped: dict[str, NotebookNode]) -> list[str]:
    """What is otherwise than when students last got their notebooks; nothing where they never did."""
    found: list[str] = []
    before = None
    try:
        if before := course_if_any(root, LAST_TIME):
            found += changes(before, course)
    except BadCourseFile as error:
        found.append(f"what the last release was made from cannot be compared: {error}")
    released = {unit: _released(root, unit) for unit in shaped}
    for unit, notebook in shaped.items():
        if (then := released[unit]) is not None:
            found += [*exercise_changes(then, graded(notebook)), *total_change(unit, then, graded(notebook))]
    if found:
        return ["Since the last release:", *(f"  {line}" for line in found)]
    return ["Nothing has changed since the last release."] if before else []


def _released(root: Path, unit: str) -> dict[str, float] | None:
    file = root / RELEASED / unit / f"{unit}.ipynb"
    return graded(nbformat.read(file, as_version=4)) if file.is_file() else None


def _solutions(root: Path, unit: str) -> NotebookNode:
    """Raises: CannotRelease."""
    file = Path("solutions", unit, f"{unit}.ipynb")
    notebook = nbformat.read(root / file, as_version=4)
    refuse_wrong_marks(file, notebook)
    return notebook


def _refuse_lost_marks(folder: Course, shaped: dict[str, NotebookNode]) -> None:
    """Once somebody is marked, nbgrader takes no exercise more and none less.  Raises: BadCourseFile."""
    for unit, notebook in shaped.items():
        entered, now = entered_exercises(folder, unit), graded(notebook).keys()
        if gone := sorted(entered - now):
            raise BadCourseFile(f"students have marks in {unit}, and {', '.join(gone)} would be lost. Leave it assigned, "
                                f"and withdraw it, so that it counts 0 of 0: withdrawn = {gone!r}")
        if entered and (new := sorted(now - entered)):
            raise BadCourseFile(f"students have marks in {unit} already, and nbgrader takes no further exercise then: "
                                f"take {', '.join(new)} out of `exercises`")


def entered_exercises(folder: Course, unit: str) -> set[str]:
    """What the gradebook marks of a unit; nothing where nobody has been marked."""
    with folder.gradebook() as gradebook:
        try:
            notebook = gradebook.find_notebook(unit, unit)
        except MissingEntry:
            return set()
        return {cell.name.removesuffix("_check") for cell in notebook.grade_cells} if notebook.submissions else set()
