"""Give an exercise's points by hand, with a comment; they win over the judge's, and stay when marking is repeated."""

import argparse
import sys

import nbformat
from nbgrader.api import Grade, MissingEntry, SubmittedAssignment

from grader.course.assigning import graded
from grader.course.course_file import BadCourseFile, nearest
from grader.course.folder import Course
from grader.course.late import enter_penalty
from grader.course.shown import plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("student", help="her name in the gradebook, or the platform's number")
    parser.add_argument("exercise", help="for example ring_all_reduce")
    parser.add_argument("points", metavar="NUMBER", help="how many points, or `judge` to take back what was given by hand")
    parser.add_argument("--comment", help="for her page of feedback")


def run(arguments: argparse.Namespace) -> int:
    """0: entered. 2: refused."""
    course = Course()
    try:
        unit = _unit_of(course, arguments.exercise)
        student, = course.by_names(unit, [arguments.student])
        print(_give(course, unit, student, arguments.exercise, arguments.points, arguments.comment))
        enter_penalty(course, student, unit)  # it is a share of the points
    except BadCourseFile as error:
        print(f"The points are entered, and what being late costs is not: {plain(str(error))}", file=sys.stderr)
        return 2
    except (ValueError, MissingEntry) as error:
        print(f"Nothing was entered: {plain(str(error))}", file=sys.stderr)
        return 2
    return 0


def _unit_of(course: Course, exercise: str) -> str:
    """Raises: ValueError, with the nearest name."""
    units = {name: unit for unit in course.units("release_directory")
             for name in graded(nbformat.read(course.released_notebook(unit), as_version=4))}
    if exercise not in units:
        raise ValueError(f"no unit that was released marks an exercise called {exercise!r}{nearest(exercise, units)}")
    return units[exercise]


def _give(course: Course, unit: str, student: str, exercise: str, points: str, comment: str | None) -> str:
    """What was entered, in words.  Raises: ValueError, MissingEntry."""
    with course.gradebook() as gradebook:
        grade = gradebook.find_grade(f"{exercise}_check", unit, unit, student)
        before = grade.score
        grade.manual_score = None if points == "judge" else _number(points, grade.max_score)
        grade.needs_manual_grade = False
        if comment is not None:
            gradebook.find_comment(exercise, unit, unit, student).manual_comment = comment
        gradebook.db.commit()
        return f"{plain(student)}, {exercise}: {before:g} → {grade.score:g} of {grade.max_score:g} points"


def by_hand(submission: SubmittedAssignment) -> dict[str, float]:
    """Exercise → the points that count in place of the judge's, where they are others."""
    return {grade.name.removesuffix("_check"): grade.score for one in submission.notebooks for grade in one.grades
            if is_by_hand(grade) and grade.max_score}


def is_by_hand(grade: Grade) -> bool:
    return grade.manual_score is not None and grade.manual_score != grade.auto_score


def _number(text: str, most: float) -> float:
    """Raises: ValueError."""
    try:
        points = float(text)
    except ValueError:
        raise ValueError(f"expected a number of points or `judge`, found {text!r}") from None
    if not 0 <= points <= most:
        raise ValueError(f"the exercise has {most:g} points, and {text} is not between 0 and that")
    return points
