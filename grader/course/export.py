"""The gradebook's marks as a table: what `nbgrader export` writes for this course, by configuration."""

import csv
from typing import Any

from nbgrader.api import Assignment, Gradebook, MissingEntry, Student
from nbgrader.plugins import ExportPlugin

from grader.course.shown import cell

COLUMNS = ("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score",
           "late_submission_penalty", "score", "max_score")


class MarksAsCsv(ExportPlugin):
    """nbgrader's own columns, where a name may hold commas and lines, and no cell is a formula."""

    def export(self, gradebook: Gradebook) -> None:
        """A row for each assignment and student, those who did not hand in too."""
        students, assignments = (set(map(str, names)) for names in (self.student, self.assignment))
        with open(self.to or "grades.csv", "w", newline="", encoding="utf-8", errors="replace") as file:
            writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            writer.writerow(COLUMNS)
            for assignment in gradebook.assignments:
                for student in gradebook.students:
                    if (not assignments or assignment.name in assignments) and (not students or student.id in students):
                        facts = _facts(gradebook, assignment, student)
                        writer.writerow(["" if facts[name] is None else cell(facts[name]) for name in COLUMNS])


def _facts(gradebook: Gradebook, assignment: Assignment, student: Student) -> dict[str, Any]:
    facts = {"assignment": assignment.name, "duedate": assignment.duedate, "student_id": student.id,
             "last_name": student.last_name, "first_name": student.first_name, "email": student.email,
             "max_score": assignment.max_score}
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:
        return facts | {"timestamp": "", "raw_score": 0.0, "late_submission_penalty": 0.0, "score": 0.0}
    penalty = submission.late_submission_penalty
    return facts | {"timestamp": submission.timestamp, "raw_score": submission.score, "late_submission_penalty": penalty,
                    "score": max(0.0, submission.score - penalty)}
