"""The steps that nbgrader's own autograde runs for this course, by configuration: splice, mark, save."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from traitlets import Bool

from grader.mark import exercise_of, mark_notebook
from grader.splice import splice

REMARKS = "remarks"


class SpliceSolutions(NbGraderPreprocessor):
    """Put the student's solutions into the notebook that was released."""

    def preprocess(self, nb: NotebookNode, resources):
        facts = resources["nbgrader"]
        course = CourseDirectory(parent=self)
        folder = Path(course.format_path(course.release_directory, ".", facts["assignment"]))
        template = nbformat.read(folder / f"{facts['notebook']}.ipynb", as_version=4)
        spliced, remarks = splice(template, nb)
        spliced.metadata[REMARKS] = remarks
        return spliced, resources


class MarkExercises(NbGraderPreprocessor):
    """Run, judge, and write the verdicts into the notebook and into a record beside it."""

    unsafe = Bool(False, help="Run submissions without a sandbox: their code can then do whatever you can.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources):
        remarks = nb.metadata.pop(REMARKS, [])
        marks = mark_notebook(nb, unsafe=self.unsafe)
        marks.remarks[:0] = remarks
        resources["marks"] = marks
        facts = resources["nbgrader"]
        course = CourseDirectory(parent=self)
        folder = Path(course.format_path(course.autograded_directory, facts["student"], facts["assignment"]))
        (folder / f"{facts['notebook']}.marks.json").write_text(json.dumps(marks.record(), indent=1))
        for remark in marks.remarks:
            self.log.warning("%s: %s", facts["student"], remark)
        return nb, resources


class SaveMarks(SaveAutoGrades):
    """The judge's points into the gradebook; a check without a verdict earns nothing."""

    def _add_score(self, cell: NotebookNode, resources) -> None:
        grade = self.gradebook.find_grade(cell.metadata["nbgrader"]["grade_id"], self.notebook_id, self.assignment_id,
                                          self.student_id)
        grade.auto_score = resources["marks"].points(exercise_of(cell))
        grade.needs_manual_grade = grade.manual_score is not None
        self.gradebook.db.commit()

    def _add_comment(self, cell: NotebookNode, resources) -> None:
        """The reason for the points, beside the solution."""
        comment = self.gradebook.find_comment(cell.metadata["nbgrader"]["grade_id"], self.notebook_id,
                                              self.assignment_id, self.student_id)
        verdict = resources["marks"].verdicts.get(exercise_of(cell))
        if verdict is not None and not verdict.passed:
            comment.auto_comment = verdict.problem or "; ".join(text for _, text in verdict.hints) or "See the check."
        else:
            comment.auto_comment = None
        self.gradebook.db.commit()
