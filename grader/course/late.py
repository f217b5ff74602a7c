"""What being late costs, and who may be: nbgrader's step for it, by course.toml where there is one."""

from datetime import timedelta
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import Gradebook, SubmittedAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import BasePlugin
from nbgrader.preprocessors import AssignLatePenalties

from grader.course.course_file import CourseFile, LateRule, course_if_any
from grader.course.folder import Course


class ByCourseFile(BasePlugin):
    """nbgrader's plugin that says what so many seconds cost."""

    rule = LateRule()

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """Points to take off, of `score` points."""
        return self.rule.penalty(score, timedelta(seconds=total_seconds_late))


class LatePenalties(AssignLatePenalties):
    """As nbgrader's, which any other rule can still be configured for; with course.toml its rule and its extensions."""

    def preprocess(self, nb: NotebookNode, resources) -> tuple[NotebookNode, dict]:
        root, facts = Path(CourseDirectory(parent=self).root), resources["nbgrader"]
        if course := course_if_any(root):
            folder = Course()
            self.plugin_class = type("ByThisCourseFile", (ByCourseFile,), {"rule": course.late})
            with Gradebook(facts["db_url"]) as gradebook:
                extend(gradebook, course, facts["student"], facts["assignment"],
                       _number(folder, facts["assignment"], facts["student"]))
        return super().preprocess(nb, resources)


def extend(gradebook: Gradebook, course: CourseFile, student: str, unit: str, number: str) -> None:
    """Enter until when this student may hand in: the unit's due date, and an extension of it. number: the platform's."""
    submission = gradebook.find_submission(unit, student)
    due, own = course.due(unit), course.due(unit, student, submission.student.email or "", number)
    gradebook.find_assignment(unit).duedate = due
    submission.extension = own - due if due and own and own != due else None
    gradebook.db.commit()


def _number(folder: Course, unit: str, student: str) -> str:
    """The platform's, of whoever was collected from one."""
    return folder.places(unit).get(student, {}).get("id", "")


def how_late(course: CourseFile | None, submission: SubmittedAssignment) -> str:
    """How its penalty comes about by course.toml, such as "2 days × 10 %"; "" where there is none."""
    if course is None or not submission.late_submission_penalty:
        return ""
    days = course.late.days(timedelta(seconds=submission.total_seconds_late))
    if days > course.late.most_days:
        return f"more than {course.late.most_days:g} days late"
    return f"{days} day{'' if days == 1 else 's'} × {course.late.percent_a_day:g} %"


def penalty_in_words(course: CourseFile | None, submission: SubmittedAssignment) -> str:
    """How many points it costs, and by which rule, if that is known."""
    points, how = round(submission.late_submission_penalty, 2), how_late(course, submission)
    if points == 1:
        return f"1 point off for being late: {how}" if how else "1 point off for being late"
    return f"{points:g} points off for being late: {how}" if how else f"{points:g} points off for being late"


def enter_penalty(folder: Course, student: str, unit: str) -> tuple[float, float]:
    """For one whose submission is as it was when it was marked: what it costs by course.toml as it is now.

    Returns: the penalty before and now; nothing and nothing without a course.toml.
    """
    if (course := course_if_any(folder.root)) is None:
        return 0.0, 0.0
    with folder.gradebook() as gradebook:
        extend(gradebook, course, student, unit, _number(folder, unit, student))
        submission = gradebook.find_submission(unit, student)
        late, before = timedelta(seconds=submission.total_seconds_late), submission.late_submission_penalty or 0.0
        for notebook in submission.notebooks:
            notebook.late_submission_penalty = course.late.penalty(notebook.score, late) or None
        gradebook.db.commit()
        return before, submission.late_submission_penalty or 0.0
