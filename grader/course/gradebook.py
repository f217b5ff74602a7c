"""The one writer of the gradebook: nbgrader's own autograde takes a finished marking, so that all its habits hold."""

from __future__ import annotations

import copy
import logging
import os
import shutil
import tempfile
import warnings
from pathlib import Path

from nbgrader.api import MissingEntry
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from grader.course.folder import Course, Submission
from grader.course.journal import Journal, Result

TIMESTAMP = "timestamp.txt"


def keep(course: Course, submission: Submission, result: Result, journal: Journal) -> None:
    """Put a result into the gradebook and into autograded/. Doing it twice is doing it once.

    nbgrader works in a folder of its own; the files are moved to their places one by one, each complete.
    """
    config = copy.deepcopy(course.config)
    with journal.staging() as stage:
        handed_in = stage / "submitted" / result.student / result.unit
        handed_in.mkdir(parents=True)
        (handed_in / f"{result.unit}.ipynb").write_text(result.notebook, encoding="utf-8")
        if (submission.path.parent / TIMESTAMP).exists():
            shutil.copy(submission.path.parent / TIMESTAMP, handed_in)
        config.CourseDirectory.submitted_directory = str(stage / "submitted")
        config.CourseDirectory.autograded_directory = str(stage / "autograded")
        config.CourseDirectory.assignment_id, config.CourseDirectory.student_id = result.unit, result.student
        config.MarkExercises.result_file = str(journal.pending_file(result.student))
        _convert(Autograde, config)
        _move(stage / "autograded" / result.student / result.unit,
              course.folder("autograded_directory", result.student, result.unit))
    journal.note_kept(result, course.db_url)


def register(course: Course, unit: str) -> bool:
    """Enter a unit's cells and points as `nbgrader generate_assignment` does, its release going nowhere; False if known."""
    with course.gradebook() as gradebook:
        try:
            if gradebook.find_assignment(unit).notebooks:
                return False
        except MissingEntry:
            pass
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        config = copy.deepcopy(course.config)
        config.CourseDirectory.release_directory = folder
        config.CourseDirectory.assignment_id = unit
        _convert(GenerateAssignment, config)
    return True


def scores(course: Course, unit: str) -> dict[str, dict[str, float]]:
    """student -> exercise -> points given by the judge, of everyone whom the gradebook has marked."""
    with course.gradebook() as gradebook:
        return {submission.student.id: {grade.name.removesuffix("_check"): grade.auto_score
                                        for notebook in submission.notebooks for grade in notebook.grades
                                        if grade.auto_score is not None}
                for submission in gradebook.assignment_submissions(unit)}


def _convert(kind: type, config: Config) -> None:
    logger = logging.getLogger("nbgrader.keep")
    logger.setLevel(logging.ERROR)
    converter = kind(coursedir=CourseDirectory(config=config), config=config, log=logger)
    converter.force = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # nbgrader's own way of adding things in two steps
        converter.start()


def _move(source: Path, target: Path) -> None:
    """The record last: who reads it finds the notebook that belongs to it."""
    target.mkdir(parents=True, exist_ok=True)
    names = sorted(os.listdir(source), key=lambda name: (name.endswith(".marks.json"), name))
    for name in names:
        if (source / name).is_file():
            os.replace(source / name, target / name)
