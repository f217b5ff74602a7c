"""The steps that nbgrader's own autograde runs for this course, by configuration: read anything, mark, save."""

import json
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from traitlets import Bool

from grader.course import files, reading
from grader.course.cell import exercise_of, language_of
from grader.course.folder import as_released, students_root, submission_in
from grader.course.limited import mark_within_limits
from grader.course.shown import plain
from utils.languages.choice import speaking, translated


class AnyNotebook(NotebookExporter):
    """Reads files that are not quite notebooks too."""

    def from_filename(self, filename, resources=None, **kwargs):
        path = Path(filename)
        notebook, _ = reading.read(files.read(path, path.parents[2], reading.MAX_BYTES))  # beyond are no students' folders
        resources = self._init_resources(resources)
        resources["metadata"] |= {"name": Path(filename).stem, "path": str(Path(filename).parent)}
        return self.from_notebook_node(notebook, resources=resources, **kwargs)


class MarkExercises(NbGraderPreprocessor):
    """The marked notebook in place of the submitted one, and the judge's record beside it."""

    unsafe = Bool(False, help="Run submissions without a sandbox: their code can then do whatever you can.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources):
        course, facts = CourseDirectory(parent=self), resources["nbgrader"]
        student, unit, name = facts["student"], facts["assignment"], facts["notebook"]
        folder = Path(course.format_path(course.submitted_directory, student, unit))
        submission = submission_in(folder, students_root(course, unit), student, unit)
        content, others = submission.contents()
        released = Path(course.format_path(course.release_directory, ".", unit), f"{name}.ipynb")
        marked, record = mark_within_limits(content, as_released(released), self.unsafe, others=others,
                                            found=submission.found, called=submission.called(submission.path))
        for remark in dict.fromkeys([*record["remarks"], *(alarm["text"] for alarm in record["alarms"])]):
            self.log.warning("%s: %s", plain(student), plain(remark))
        record_file = Path(course.format_path(course.autograded_directory, student, unit), f"{name}.marks.json")
        record_file.write_text(json.dumps(record, indent=1))
        resources["record"] = record
        return nbformat.reads(marked.decode(), as_version=4), resources


class SaveMarks(SaveAutoGrades):
    """The judge's points into the gradebook; a check without a verdict earns nothing.

    Points by hand win, but not where an exercise is withdrawn: it would count more than its 0 points.
    """

    def preprocess(self, nb: NotebookNode, resources):
        with speaking(language_of(nb)):  # of the comments
            return super().preprocess(nb, resources)

    def _add_score(self, cell: NotebookNode, resources) -> None:
        grade = self.gradebook.find_grade(cell.metadata["nbgrader"]["grade_id"], self.notebook_id, self.assignment_id,
                                          self.student_id)
        grade.auto_score = resources["record"]["exercises"].get(exercise_of(cell), {}).get("points", 0.0)
        if not cell.metadata["nbgrader"]["points"]:
            grade.manual_score = None
        grade.needs_manual_grade = grade.manual_score is not None
        self.gradebook.db.commit()

    def _add_comment(self, cell: NotebookNode, resources) -> None:
        """The reason for the points, beside the solution."""
        comment = self.gradebook.find_comment(cell.metadata["nbgrader"]["grade_id"], self.notebook_id,
                                              self.assignment_id, self.student_id)
        comment.auto_comment = reason(resources["record"]["exercises"].get(exercise_of(cell)))
        self.gradebook.db.commit()


def reason(verdict: dict[str, Any] | None) -> str | None:
    """Why a verdict (its record) has not all the points, in the language of the course; None where there is nothing to say.

    In no words of the student's: nbgrader's page takes a comment for markdown, and runs what is in it.
    """
    if verdict is None or verdict["points"] == verdict["max_points"]:
        return None
    return "; ".join(translated(text) for _, text in verdict["hints"]) or _how_many_right(verdict)


def _how_many_right(verdict: dict[str, Any]) -> str:
    """How many cases are right, where no hint is known."""
    cases = verdict.get("cases")
    if verdict.get("problem") or verdict.get("instead") or not cases:
        return translated("See the check.")
    total, right = len(cases) + verdict.get("skipped", 0), sum(case["right"] for case in cases)
    if right == total:
        return translated(f"All {total} cases are right, but the technique isn't as asked.")
    return translated(f"{right} of {total} cases are right.")
