"""The course folder as nbgrader's configuration describes it: who handed what in, what was released, which gradebook."""

import fnmatch
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.apps import NbGrader
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config


class CourseError(RuntimeError):
    """Something about the course folder that a person must fix."""


@dataclass(frozen=True)
class Submission:
    """One student's file. remark: what is odd about where it was found, "" if nothing is."""

    student: str
    unit: str
    path: Path
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.student}/{self.unit}"


class Course:
    """See the module's first line. Made from the nbgrader_config.py that nbgrader itself would find."""

    def __init__(self, db_url: str = ""):
        _find_programs()
        app = NbGrader()
        app.load_config_file()
        self.config: Config = app.config
        if db_url:
            self.config.CourseDirectory.db_url = db_url
        self.directory = CourseDirectory(config=self.config)

    @property
    def root(self) -> Path:
        return Path(self.directory.root)

    @property
    def db_url(self) -> str:
        return self.directory.db_url

    def gradebook(self) -> Gradebook:
        """To be used in a `with`."""
        return Gradebook(self.db_url, self.directory.course_id)

    def folder(self, step: str, student: str, unit: str) -> Path:
        """step: submitted_directory, autograded_directory, release_directory, …"""
        return Path(self.directory.format_path(getattr(self.directory, step), student, unit))

    def units(self) -> list[str]:
        """Released units that somebody handed in."""
        released = {path.stem for path in self.folder("release_directory", ".", "x").parent.glob("*/*.ipynb")
                    if path.stem == path.parent.name}
        handed_in = {path.name for path in self.folder("submitted_directory", "x", "x").parent.parent.glob("*/*")}
        return sorted(released & handed_in)

    def released(self, unit: str) -> bytes:
        """The released notebook.  Raises: CourseError, naming the units that there are."""
        path = self.folder("release_directory", ".", unit) / f"{unit}.ipynb"
        if not path.exists():
            there = sorted(folder.name for folder in path.parent.parent.glob("*") if folder.is_dir())
            raise CourseError(f"there is no released notebook {path}; units that were released: "
                              f"{', '.join(there) or 'none'}")
        return path.read_bytes()

    def submissions(self, unit: str, students: Sequence[str] = ()) -> tuple[list[Submission], list[str]]:
        """(submissions of the chosen students, all if none is named; what was found but cannot be marked)"""
        top = self.folder("submitted_directory", "x", unit).parent.parent
        found, odd = [], []
        for folder in sorted(top.glob(f"*/{unit}")):
            student = folder.parent.name
            if students and not any(fnmatch.fnmatchcase(student, pattern) for pattern in students):
                continue
            try:
                found.append(_submission(student, unit, folder))
            except CourseError as error:
                odd.append(str(error))
        missing = [name for name in students if not any(fnmatch.fnmatchcase(one.parent.name, name)
                                                         for one in top.glob(f"*/{unit}"))]
        return found, odd + [f"{top / name / unit} is not there: {name} has not handed in {unit}" for name in missing]


def _submission(student: str, unit: str, folder: Path) -> Submission:
    """Raises: CourseError."""
    path = folder / f"{unit}.ipynb"
    if path.is_file():
        return Submission(student, unit, path)
    others = sorted(folder.glob("*.ipynb"))
    if len(others) == 1:
        return Submission(student, unit, others[0], f"the file is called {others[0].name}, not {unit}.ipynb")
    names = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
    raise CourseError(f"{folder} holds no {unit}.ipynb (it holds {names})")


def _find_programs() -> None:
    """nbgrader calls alembic by its name."""
    programs = str(Path(sys.executable).parent)
    if programs not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
