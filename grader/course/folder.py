"""The course folder as nbgrader's configuration describes it: who handed what in, what was released, which gradebook."""

import datetime
import fnmatch
import glob
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.apps import NbGrader
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from grader.course import files
from grader.course.alarms import renamed
from grader.course.files import BadFile
from grader.course.reading import MAX_BYTES
from grader.course.release import worked_in
from grader.course.shown import plain

TIMESTAMP = "timestamp.txt"
TIMESTAMP_BYTES = 1 << 10
MOST_OTHERS, NAMED = 3, 10
NAMES, NAMES_BYTES = "names.json", 1 << 14  # beside what was collected: file -> what the student called it
COLLECTED, PLACES = "collected", "places.json"  # beside submitted/: of each unit, what came from a platform, by student
OWN_FILES = (".", "__MACOSX", "Thumbs.db", "desktop.ini")  # how names begin that systems put everywhere


class CourseError(RuntimeError):
    """Something about the course folder that a person must fix."""


@dataclass(frozen=True)
class Submission:
    """What one student handed in for a unit. No link below `root` is followed.

    path: the notebook that is marked first. others: the other notebooks beside it, the newest first, and not all if there
    are many. found: what a person should know of the files. handed_in: when, if that is known. own_names: of files, where
    the student called them otherwise.
    """

    student: str
    unit: str
    root: Path
    path: Path
    others: tuple[Path, ...] = ()
    found: tuple[str, ...] = ()
    handed_in: datetime.datetime | None = None
    own_names: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.student}/{self.unit}"

    def contents(self) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
        """(the notebook that is marked first, (name, content) of each other one)  Raises: BadFile."""
        return (files.read(self.path, self.root, MAX_BYTES),
                tuple((self.called(path), files.read(path, self.root, MAX_BYTES)) for path in self.others))

    def called(self, path: Path) -> str:
        """What the student called one of these files."""
        return plain(self.own_names.get(path.name, path.name))


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

    @property
    def has_gradebook(self) -> bool:
        """Whether there is one, as far as that can be told without making one."""
        return not self.db_url.startswith("sqlite:///") or Path(self.db_url.removeprefix("sqlite:///")).is_file()

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

    def names(self) -> dict[str, str]:
        """Student → her name, of those whom the gradebook knows by a platform's number: an e-mail tells who she is."""
        with self.gradebook() as gradebook:
            names = {student.id: plain(" ".join(filter(None, (student.first_name, student.last_name))))
                     for student in gradebook.students}
        return {student: name for student, name in names.items() if name and "@" not in student}

    def places(self, unit: str) -> dict[str, dict[str, str]]:
        """Of whoever was collected from a platform: the platform's "id" and "name", and the "place" of her files there."""
        try:
            return json.loads((self.root / COLLECTED / unit / PLACES).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def by_names(self, unit: str, names: Sequence[str]) -> list[str]:
        """The same names and patterns, where a platform's number is the student that it stands for."""
        known = {place["id"]: student for student, place in self.places(unit).items()}
        return [known.get(name, name) for name in names]

    def units(self, *steps: str) -> list[str]:
        """Units that have a notebook in one of these steps."""
        return sorted({unit for step in steps for unit, folder in self.folders(step, student=".").items()
                       if (folder / f"{unit}.ipynb").is_file()})

    def released_notebook(self, unit: str) -> Path:
        """Where it stands, if it was released."""
        return self.folder("release_directory", ".", unit) / f"{unit}.ipynb"

    def released(self, unit: str) -> bytes:
        """The released notebook.  Raises: CourseError, naming the units that there are; for one that somebody worked in."""
        path = self.released_notebook(unit)
        if not path.exists():
            there = ", ".join(sorted(self.folders("release_directory", student="."))) or "none"
            raise CourseError(f"there is no released notebook {path}; units that were released: {there}")
        return as_released(path)

    def submissions(self, unit: str, patterns: Sequence[str] = ()) -> tuple[list[Submission], list[str]]:
        """(submissions of the chosen students, what was found or looked for but cannot be marked)"""
        submissions, problems, there = [], [], set()
        for student, handed_in in self._handed_in(unit):
            if not chosen([student], patterns):
                continue
            there.add(student)
            if isinstance(handed_in, Submission):
                submissions.append(handed_in)
            else:
                problems.append(handed_in)
        missing = [pattern for pattern in patterns if not chosen(there, [pattern])]
        return submissions, problems + [f"{self.folder('submitted_directory', name, unit)} is not there: {name} has not "
                                        f"handed in {unit}" for name in missing]

    def not_readable(self, unit: str) -> dict[str, str]:
        """Student (or the name of what lies among students' folders) -> why it cannot be marked."""
        return {student: problem.removeprefix(f"{self.root}/") for student, problem in self._handed_in(unit)
                if isinstance(problem, str)}

    def _handed_in(self, unit: str) -> Iterator[tuple[str, Submission | str]]:
        """(student, what was handed in or why it cannot be marked), by name; what lies among students' folders too."""
        place, prefix, suffix, inner = _students_in(self.directory, unit)
        of_units = [_students_in(self.directory, other)[3] for other in self.units("release_directory")]
        belongs = self.folder("submitted_directory", "<student>", unit) / f"{unit}.ipynb"
        for entry in files.entries(place, place) if place.is_dir() else []:
            student = entry.name[len(prefix):len(entry.name) - len(suffix)]
            if f"{prefix}{student}{suffix}" != entry.name or not student:
                continue
            path = place / entry.name
            try:
                if entry.kind == stat.S_IFDIR and _is_there(path / inner):
                    yield student, submission_in(path / inner, place, student, unit)
                elif entry.name.startswith(OWN_FILES):
                    continue
                elif entry.kind != stat.S_IFDIR:
                    yield student, (f"{path} is {entry.described}, and the folder of a student was expected: submissions "
                                    f"belong at {belongs}")
                elif (holds := files.entries(path, place)) and not any(_is_there(path / other) for other in of_units):
                    yield student, (f"{path} holds no unit that was released (it holds {_listed(list(map(str, holds)))}): "
                                    f"submissions belong at {belongs}")
            except (BadFile, CourseError) as error:
                yield student, str(error)
            except Exception as error:  # of this student only, whatever it is
                yield student, f"{path} cannot be read: {type(error).__name__}: {error!s:.200}"


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


def called(student: str, names: Mapping[str, str]) -> str:
    """How people are told of her: 1000127 (Wei Wang). names: see Course.names."""
    return f"{student} ({names[student]})" if student in names else student


def chosen(students: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The students of one of these names or patterns such as "a*", in order; all of them where there is no pattern."""
    return sorted(student for student in students if not patterns or student in patterns
                  or any(fnmatch.fnmatchcase(student, pattern) for pattern in patterns))


def submission_in(folder: Path, root: Path, student: str, unit: str) -> Submission:
    """Which of a folder's notebooks is marked first, and what is odd about its files.  Raises: CourseError, BadFile."""
    try:
        student.encode()
    except UnicodeEncodeError:
        latin = os.fsencode(student).decode("latin-1")
        raise CourseError(f"{folder}: the student's name is not UTF-8, and the gradebook can hold no other: rename the "
                          f"folder (as Latin-1 it reads {latin!r})") from None
    name, there = f"{unit}.ipynb", files.entries(folder, root)
    sizes, bad = {}, []
    for entry in there:
        if entry.name.lower().endswith(".ipynb") and not entry.name.startswith(OWN_FILES):
            try:
                sizes[entry] = files.size_of(folder / entry.name, root, MAX_BYTES)
            except BadFile as error:
                bad.append(f"{plain(entry.name)} {error.words}")
    found = bad[:NAMED] + ([f"{len(bad) - NAMED} more notebooks cannot be read"] if len(bad) > NAMED else [])
    if not sizes:
        holds = _listed([str(entry) for entry in there]) or "nothing"
        raise CourseError(f"{folder}: {'; '.join(found)}" if found else f"{folder} holds no {name} (it holds {holds})")
    newest_first = sorted(sizes, key=lambda entry: (-entry.changed_ns, entry.name))
    first = min(newest_first, key=lambda entry: (entry.name != name, _letters(unit) not in _letters(entry.name)))
    others = [entry for entry in newest_first if entry is not first]
    if first.name != name and not others:
        found.insert(0, renamed(plain(first.name)))
    if first.names > 1:
        found.append("the file has another name on this disk too (a hard link): see whose it is")
    read, room = [], MAX_BYTES - sizes[first]
    for entry in others:
        if len(read) < MOST_OTHERS and sizes[entry] <= room:
            read.append(entry)
            room -= sizes[entry]
    if unread := [entry.name for entry in others if entry not in read]:
        found.append(f"further notebooks were handed in and not read: {_listed(unread)}")
    when, remark = time_of(folder, root)
    return Submission(student, unit, root, folder / first.name, tuple(folder / entry.name for entry in read),
                      (*found, *([remark] if remark else [])), when, _own_names(folder, root))


def _own_names(folder: Path, root: Path) -> dict[str, str]:
    try:
        names = json.loads(files.read(folder / NAMES, root, NAMES_BYTES))
    except (BadFile, ValueError, RecursionError):
        return {}
    return {file: name for file, name in names.items() if isinstance(name, str)} if isinstance(names, dict) else {}


def students_root(directory: CourseDirectory, unit: str) -> Path:
    """The folder below which everything is students': it holds their folders."""
    return _students_in(directory, unit)[0]


def _students_in(directory: CourseDirectory, unit: str) -> tuple[Path, str, str, str]:
    """(the folder that holds students' folders, what their names begin and end with beside the student, the path in one)"""
    before, _, after = directory.format_path(directory.submitted_directory, "\0", unit).partition("\0")
    place, prefix = os.path.split(before)
    suffix, _, inner = after.partition(os.sep)
    return Path(place), prefix, suffix, inner


def _is_there(folder: Path) -> bool:
    """Raises: BadFile where that cannot be told."""
    try:
        os.lstat(folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BadFile(folder, f"cannot be reached ({error.strerror}): change the permissions of the folders above it "
                              "(`chmod u+rX`)") from None
    return True


def _letters(name: str) -> str:
    """Platforms change the rest of a name."""
    return "".join(filter(str.isalnum, name.casefold()))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(map(plain, names[:NAMED])) + (f" and {more} more" if more > 0 else "")


def time_of(folder: Path, root: Path | None = None) -> tuple[datetime.datetime | None, str]:
    """When (in UTC, as the gradebook has it), by the file beside a submission; and what is wrong with that file.

    nbgrader's own reading takes CEST for UTC, and forgets +01:00. No link below `root` (if None: in the folder) is followed.
    """
    path = folder / TIMESTAMP
    if not os.path.lexists(path):
        return None, ""
    try:
        text = files.read(path, root or folder, TIMESTAMP_BYTES).decode(errors="replace").strip()
    except BadFile as error:
        return None, f"{TIMESTAMP} {error.words}"
    if not text:
        return None, ""
    try:
        time = datetime.datetime.fromisoformat(text.removesuffix("UTC").rstrip())
        return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time, ""
    except (ValueError, OverflowError):
        return None, f"{TIMESTAMP} tells no time: {plain(text[:40])!r} (expected is one like '2026-12-01 23:59:00 UTC')"


def _find_programs() -> None:
    """nbgrader calls alembic by its name."""
    programs = str(Path(sys.executable).parent)
    if programs not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
