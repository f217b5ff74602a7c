"""A report's files: CSV tables, the marks as nbgrader exports them, the figure, the page."""

import csv
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from grader.course.export import MarksAsCsv
from grader.course.folder import Course
from grader.course.shown import cell
from grader.report.figure import points_figure
from grader.report.page import page
from grader.report.records import one_line
from grader.report.tally import Summary

MIB = 1 << 20


def write_files(summary: Summary, folder: Path) -> list[str]:
    """Write all but the marks; the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = points_figure(summary.unit, summary.tallies)
    write_csv(folder / "exercises.csv", exercise_rows(summary))
    write_csv(folder / "submissions.csv", submission_rows(summary))
    picture.save(folder / "points.png")
    (folder / "report.html").write_text(page(summary, picture), encoding="utf-8", errors="replace")
    return ["exercises.csv", "submissions.csv", "points.png", "report.html"]


def write_marks(course: Course, summary: Summary, file: Path, taking_part: Collection[str] = ()) -> str:
    """Write the unit's marks as `nbgrader export` does; why not, in words, if there are none.

    taking_part: students of the unit beside those who handed in; everybody in the gradebook, if none are known.
    """
    if not course.has_gradebook:
        return "there is no gradebook yet"
    students = [submission.student for submission in summary.submissions]
    if summary.whole_class:
        students = [*students, *taking_part] if taking_part else []
    try:
        with course.gradebook() as gradebook:
            if summary.unit not in {assignment.name for assignment in gradebook.assignments}:
                return f"the gradebook does not know {summary.unit}"
            exporter = MarksAsCsv(config=course.config, to=str(file), assignment=[summary.unit], student=students)
            exporter.export(gradebook)
    except (SQLAlchemyError, ImportError, OSError) as error:  # ImportError: no driver for the gradebook's URL
        return f"the gradebook cannot be read: {one_line(str(error))}"
    return ""


def exercise_rows(summary: Summary) -> list[dict[str, Any]]:
    """A line an exercise."""
    return [{
        "exercise": t.exercise, "title": t.title, "path": t.path, "students": len(t.points), "mean": t.mean,
        "max_points": t.max_points, "none": t.none, "part": t.part, "all": t.full,
        "commonest": t.symptoms[0].words if t.symptoms else "",
        "symptoms": "; ".join(f"{len(s.students)}× {s.name}" for s in t.symptoms),
    } for t in summary.tallies]


def submission_rows(summary: Summary) -> list[dict[str, Any]]:
    """A line a submission: its marks and cost, what to look at, and per exercise points and the reason for those lost."""
    rows = []
    for submission in summary.submissions:
        row = {
            "student": submission.student, "state": submission.not_marked or "marked",
            "points": "" if submission.not_marked else submission.points,
            "max_points": "" if submission.not_marked else submission.max_points,
            "late": submission.late,
            "seconds": "" if submission.seconds is None else round(submission.seconds, 1),
            "peak_MiB": "" if submission.peak_bytes is None else round(submission.peak_bytes / MIB),
            "remarks": "; ".join(submission.remarks),
            "alarms": "; ".join(alarm.text for alarm in submission.alarms),
            "needs_a_look": "; ".join(f"{look.kind}: {look.words}" for look in summary.looks
                                      if look.student == submission.student),
        }
        for t in summary.tallies:
            outcome = submission.outcomes.get(t.exercise)
            row[f"{t.exercise} points"] = outcome.points if outcome else ""
            row[f"{t.exercise} reason"] = outcome.reason if outcome else ""
        rows.append(row)
    return rows


def write_csv(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows with the same keys; no cell is a formula, whatever a student wrote."""
    with open(file, "w", newline="", encoding="utf-8", errors="replace") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC)  # where a semicolon parts cells, too
        writer.writerows([map(cell, rows[0]), *(map(cell, row.values()) for row in rows)] if rows else [])
