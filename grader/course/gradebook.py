"""The one writer of the gradebook: a finished marking takes the same last steps as in nbgrader's own autograde."""

import copy
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbconvert.preprocessors import Preprocessor
from nbgrader.api import MissingEntry
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import is_grade, is_locked, is_solution, is_task
from sqlalchemy.exc import SAWarning

from grader.course import files
from grader.course.autograde import MarkExercises
from grader.course.folder import TIMESTAMP, TIMESTAMP_BYTES, Course, Submission
from grader.course.journal import Journal, Result
from grader.course.shown import whole

QUIET = logging.getLogger("nbgrader.keep")  # what nbgrader tells of each notebook would drown our lines
QUIET.setLevel(logging.ERROR)


def keep(course: Course, submission: Submission, result: Result, journal: Journal) -> None:
    """Put a result into the gradebook and into autograded/. Doing it twice is doing it once.

    The files are prepared in a folder of their own and moved to their places one by one, each complete.
    """
    nbgrader = Autograde(coursedir=course.directory, config=course.config, log=QUIET)
    with journal.staging() as stage:
        with _without_warnings():
            _enter(course, submission, nbgrader.create_student)
            notebook = _saved(course, result, nbgrader.autograde_preprocessors)
        (stage / f"{result.unit}.ipynb").write_text(notebook, encoding="utf-8")
        (stage / f"{result.unit}.marks.json").write_text(json.dumps(result.record, indent=1))
        _copy_others(course, submission, stage)
        _move(stage, course.folder("autograded_directory", result.student, result.unit), int(str(nbgrader.permissions), 8))
    journal.note_kept(result, course.db_url)


def _enter(course: Course, submission: Submission, create_student: bool) -> None:
    """The student, and when the submission was handed in, if that is known."""
    when = submission.handed_in
    with course.gradebook() as gradebook:
        if create_student:
            gradebook.update_or_create_student(submission.student)
        gradebook.update_or_create_submission(submission.unit, submission.student, timestamp=when)


def _saved(course: Course, result: Result, steps: Sequence[type[Preprocessor]]) -> str:
    """The marked notebook after all of nbgrader's steps but the marking: points, comments, penalties."""
    resources = {"record": result.record, "nbgrader": {"student": result.student, "assignment": result.unit,
                                                       "notebook": result.unit, "db_url": course.db_url}}
    notebook = nbformat.reads(result.notebook, as_version=4)
    for step in steps:
        if step is not MarkExercises:
            notebook, resources = step(config=course.config, log=QUIET)(notebook, resources)
    return whole(nbformat.writes(notebook)) + "\n"


def _copy_others(course: Course, submission: Submission, stage: Path) -> None:
    """What else nbgrader puts beside a marked notebook: the instructor's other files, and when it was handed in."""
    source = course.folder("source_directory", ".", submission.unit)
    if source.is_dir():
        ignored = shutil.ignore_patterns(*course.directory.ignore, "*.ipynb")
        shutil.copytree(source, stage, ignore=ignored, dirs_exist_ok=True)
    if submission.handed_in:
        (stage / TIMESTAMP).write_bytes(files.read(submission.path.parent / TIMESTAMP, submission.root, TIMESTAMP_BYTES))


def _move(source: Path, target: Path, permissions: int) -> None:
    """The record last: who reads it finds the notebook that belongs to it."""
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    for file in sorted(files, key=lambda file: (file.name.endswith(".marks.json"), file)):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        os.chmod(source / file, permissions)
        os.replace(source / file, target / file)


def register(course: Course, unit: str) -> bool:
    """Enter a unit's cells and points as `nbgrader generate_assignment` does, its release going nowhere; False if known."""
    if _is_known(course, unit):
        return False
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        config = copy.deepcopy(course.config)
        config.CourseDirectory.release_directory = folder
        config.CourseDirectory.assignment_id = unit
        converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config, log=QUIET)
        converter.force = True
        with _without_warnings():
            converter.start()
    return True


def _is_known(course: Course, unit: str) -> bool:
    """Whether the unit was entered to its end (nbgrader takes many steps; cells come last), or somebody has marks in it."""
    with course.gradebook() as gradebook:
        try:
            notebook = gradebook.find_notebook(unit, unit)
        except MissingEntry:
            return False
        entered = {cell.name for cell in notebook.source_cells}
        return bool(notebook.submissions) or _cells_of(course.released(unit)) <= entered


def _cells_of(released: bytes) -> set[str]:
    """The names of the cells that nbgrader keeps."""
    cells = nbformat.reads(released.decode(), as_version=4).cells
    return {cell.metadata.nbgrader.grade_id for cell in cells
            if is_grade(cell) or is_solution(cell) or is_locked(cell) or is_task(cell)}


def scores(course: Course, unit: str) -> dict[str, dict[str, float]]:
    """student -> exercise -> points given by the judge, of everyone whom the gradebook has marked."""
    with course.gradebook() as gradebook:
        return {submission.student.id: {grade.name.removesuffix("_check"): grade.auto_score
                                        for notebook in submission.notebooks for grade in notebook.grades
                                        if grade.auto_score is not None}
                for submission in gradebook.assignment_submissions(unit)}


def _without_warnings() -> warnings.catch_warnings:
    """Without those about nbgrader's own way of adding things in two steps."""
    return warnings.catch_warnings(action="ignore", category=SAWarning)
