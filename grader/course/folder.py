"""The course folder as nbgrader's configuration describes it: who handed what in, what was released, which gradebook."""

import datetime
import fnmatch
import glob
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.apps import NbGrader
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from grader.course.release import worked_in

TIMESTAMP = "timestamp.txt"


class CourseError(RuntimeError):
    """Something about the course folder that a person must fix."""


@dataclass(frozen=True)
class Submission:
    """One student's file. remark: what is odd about where it was found, "" if nothing is; handed_in: when, if known."""

    student: str
    unit: str
    path: Path
    remark: str = ""
    handed_in: datetime.datetime | None = None

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
        self.root, self.db_url = Path(self.directory.root), self.directory.db_url

    def gradebook(self) -> Gradebook:
        """To be used in a `with`."""
        return Gradebook(self.db_url, self.directory.course_id)

    def folder(self, step: str, student: str, unit: str) -> Path:
        """step: submitted_directory, autograded_directory, release_directory, …"""
        return Path(self.directory.format_path(getattr(self.directory, step), student, unit))

    def folders(self, step: str, student: str = "\0", unit: str = "\0") -> dict[str, Path]:
        """The existing folders of one step: by student where the unit is given, by unit where the student is."""
        before, _, after = str(self.folder(step, student, unit)).partition("\0")
        paths = glob.glob(f"{glob.escape(before)}*{glob.escape(after)}", include_hidden=True)
        return {path[len(before):len(path) - len(after)]: Path(path) for path in paths if os.path.isdir(path)}

    def units(self, *steps: str) -> list[str]:
        """Units that have a notebook in one of these steps."""
        return sorted({unit for step in steps for unit, folder in self.folders(step, student=".").items()
                       if (folder / f"{unit}.ipynb").is_file()})

    def released(self, unit: str) -> bytes:
        """The released notebook.  Raises: CourseError, naming the units that there are; for one that somebody worked in."""
        path = self.folder("release_directory", ".", unit) / f"{unit}.ipynb"
        if not path.exists():
            there = ", ".join(sorted(self.folders("release_directory", student="."))) or "none"
            raise CourseError(f"there is no released notebook {path}; units that were released: {there}")
        return as_released(path)

    def submissions(self, unit: str, patterns: Sequence[str] = ()) -> tuple[list[Submission], list[str]]:
        """(submissions of the chosen students, what was found or looked for but cannot be marked)"""
        handed_in = self.folders("submitted_directory", unit=unit)
        submissions, odd = [], []
        for student in chosen(handed_in, patterns):
            try:
                submissions.append(_submission(student, unit, handed_in[student]))
            except CourseError as error:
                odd.append(str(error))
        missing = [pattern for pattern in patterns if not chosen(handed_in, [pattern])]
        return submissions, odd + [f"{self.folder('submitted_directory', name, unit)} is not there: {name} has not handed "
                                   f"in {unit}" for name in missing]


def as_released(path: Path) -> bytes:
    """A released notebook.  Raises: CourseError for one that somebody worked in."""
    content = path.read_bytes()
    try:
        worked = worked_in(content)
    except ValueError as error:
        raise CourseError(f"{path} cannot be read ({error}): `make notebooks ARGS={path.stem}` makes it anew") from None
    if worked:
        some = ", ".join(worked[:3]) + (f" and {len(worked) - 3} more cells" if len(worked) > 3 else "")
        raise CourseError(f"{path} is not as it was released: somebody worked in {some}, which would count for students who "
                          f"wrote nothing there. `make notebooks ARGS={path.stem}` makes it anew")
    return content


def chosen(students: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The students of one of these names or patterns such as "a*", in order; all of them where there is no pattern."""
    return sorted(student for student in students if not patterns or student in patterns
                  or any(fnmatch.fnmatchcase(student, pattern) for pattern in patterns))


def _submission(student: str, unit: str, folder: Path) -> Submission:
    """Raises: CourseError."""
    path, others = folder / f"{unit}.ipynb", sorted(folder.glob("*.ipynb"))
    when, remark = time_of(folder)
    if path.is_file():
        return Submission(student, unit, path, remark, when)
    if len(others) == 1:
        remarks = [f"the file is called {others[0].name}, not {unit}.ipynb", *([remark] if remark else [])]
        return Submission(student, unit, others[0], "; ".join(remarks), when)
    names = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
    raise CourseError(f"{folder} holds no {unit}.ipynb (it holds {names})")


def time_of(folder: Path) -> tuple[datetime.datetime | None, str]:
    """When (in UTC, as the gradebook has it), by the file beside a submission; and what is wrong with that file.

    nbgrader's own reading takes CEST for UTC, and forgets +01:00.
    """
    path = folder / TIMESTAMP
    text = path.read_text(errors="replace").strip() if path.is_file() else ""
    if not text:
        return None, ""
    try:
        time = datetime.datetime.fromisoformat(text.removesuffix("UTC").rstrip())
        return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time, ""
    except (ValueError, OverflowError):
        return None, f"{TIMESTAMP} tells no time: {text[:40]!r} (expected is one like '2026-12-01 23:59:00 UTC')"


def _find_programs() -> None:
    """nbgrader calls alembic by its name."""
    programs = str(Path(sys.executable).parent)
    if programs not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
