"""nbgrader's configuration for this course: nbgrader finds it through nbgrader_config.py in the root folder."""

from pathlib import Path

from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import CheckCellMetadata, ClearSolutions, LimitOutput

from grader.course.autograde import AnyNotebook, MarkExercises, SaveMarks
from grader.course.export import MarksAsCsv
from grader.course.late import LatePenalties
from grader.course.release import ClearOrBreak

c = get_config()  # ty: ignore[unresolved-reference] which traitlets defines

ROOT = Path(__file__).resolve().parent.parent
ASSIGNED = (ROOT / "course.toml").exists()  # then nothing that git tracks is edited or generated
c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.course_id = "many-ranks-one-loss"
c.CourseDirectory.source_directory = "assigned/solutions" if ASSIGNED else "solutions"
c.CourseDirectory.release_directory = "assigned/notebooks" if ASSIGNED else "notebooks"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", ".pytest_cache", "*.marks.json"]  # not handed on

c.ClearSolutions.code_stub = {"python": '# Your code here.\nraise NotImplementedError("yours to write")'}
c.GenerateAssignment.preprocessors = [ClearOrBreak if step is ClearSolutions else step
                                      for step in GenerateAssignment.preprocessors.default()]

# Marks come only from the judge: our own steps stand where nbgrader would overwrite, execute and score.
c.Autograde.exporter_class = AnyNotebook
c.Autograde.sanitize_preprocessors = []
c.Autograde.autograde_preprocessors = [MarkExercises, LimitOutput, SaveMarks, LatePenalties, CheckCellMetadata]

c.ExportApp.plugin_class = MarksAsCsv

c.Execute.timeout = 300  # the validate button runs whole notebooks, benchmarks too
