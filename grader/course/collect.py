"""Take in what a learning platform collected: a file's name does not matter; who is missing and who was late is said."""

import argparse
import contextlib
import datetime
import functools
import json
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import nbformat

from grader.course.assigning import graded
from grader.course.course_file import BadCourseFile, CourseFile, course_if_any
from grader.course.folder import COLLECTED, MOST_OTHERS, NAMES, OWN_FILES, PLACES, TIMESTAMP, Course, CourseError
from grader.course.handed_in import another_unit
from grader.course.platforms import (
    PLATFORMS,
    BadTable,
    HandedIn,
    Student,
    copy_number,
    handed_in,
    roster,
    without_copy_number,
)
from grader.course.reading import MAX_BYTES
from grader.course.reading import read as notebook_of
from grader.course.shown import plain

REPLACED = "replaced"  # what stood in submitted/ before, in the unit's folder in COLLECTED
UNREADABLE = (OSError, ValueError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile)
SHOWN = 12
LONGEST_NAME = 60
A_SECOND = datetime.timedelta(seconds=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("platform", choices=PLATFORMS, help="where it comes from")
    parser.add_argument("download", type=Path, metavar="FILE.zip", help="what the platform gave, or a folder with it")
    parser.add_argument("unit", help="for example 01_collectives")
    parser.add_argument("--roster", type=Path, metavar="FILE.csv",
                        help="who takes part: Moodle's grading worksheet, Canvas's gradebook, or a table id,name,email")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be taken in")
    parser.add_argument("--yes", action="store_true", help="take it in even if most of it is another unit's notebook")


@dataclass(frozen=True)
class File:
    """One file of a download; changed: when, in seconds, as the archive or the disk has it (which orders a student's files,
    and says nothing of when they were handed in); read: its content."""

    of: HandedIn
    changed: float
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Work:
    """What one student handed in, the newest first. key: whom the gradebook knows her as."""

    key: str
    files: list[File]
    student: Student | None

    @property
    def of(self) -> HandedIn:
        return self.files[0].of

    def __str__(self) -> str:
        name = self.student.name if self.student else self.of.name
        return plain(name if name == self.key else f"{name}, {self.key}")


class Refused(ValueError):
    """Nothing was taken in."""


def run(arguments: argparse.Namespace) -> int:
    """0: taken in, and what could not be is said. 2: refused."""
    with contextlib.ExitStack() as opened:
        try:
            course = Course()
            if arguments.unit not in course.units("release_directory"):
                raise Refused(f"there is no released unit {arguments.unit!r}; there are: "
                              f"{', '.join(course.units('release_directory')) or 'none yet'}")
            assigned = course_if_any(course.root) or CourseFile()
            files, odd = _files(arguments.platform, arguments.download, opened)
            text = arguments.roster.read_text(encoding="utf-8") if arguments.roster else ""
            students = {student.id: student for student in roster(arguments.platform, text, assigned.zone)} if text else {}
            works = _by_student(files, students)
            if not works:
                raise Refused(f"{arguments.download} holds no notebook that {arguments.platform} would have collected" + (
                    f"; it holds {', '.join(odd[:SHOWN])}" if odd else ""))
            if not arguments.yes:
                _refuse_another_unit(course, arguments.unit, works)
            before = course.folders("submitted_directory", unit=arguments.unit).keys()
        except (Refused, BadTable, BadCourseFile, CourseError, OSError, zipfile.BadZipFile, UnicodeDecodeError) as error:
            print(f"Nothing was taken in: {plain(str(error))}", file=sys.stderr)
            return 2
        if not arguments.dry_run:
            odd += [problem for work in works if (problem := _keep(course, arguments.unit, work, assigned))]
            _keep_for_handing_back(course, arguments, works, text)
        print("\n".join(_in_words(arguments.unit, works, students, before, odd, assigned)))
        print("".join(f"{line}\n" for line in _extensions(arguments.unit, students.values(), assigned)), end="")
        if not text and arguments.platform != "folder":
            print(f"Without the table of students (--roster) they are known by {arguments.platform.capitalize()}'s numbers, "
                  f"another time perhaps by e-mail ({len(works)}): {'; '.join(map(str, works))}")
    return 0


def _files(platform: str, download: Path, opened: contextlib.ExitStack) -> tuple[list[File], list[str]]:
    """(the notebooks of students, what else there is)"""
    files, odd = [], []
    for path, size, changed, read in _entries(download, opened):
        if any(part.startswith(OWN_FILES) for part in PurePosixPath(path).parts if part != ".."):
            continue
        found = handed_in(platform, path)
        if found is None or not found.file.lower().endswith(".ipynb"):
            odd.append(plain(path) if found is None else f"{plain(found.name)}: {plain(found.file)}")
        elif size > MAX_BYTES:
            odd.append(f"{plain(found.name)}: {plain(found.file)} has more than {MAX_BYTES >> 20} MiB")
        else:
            files.append(File(found, changed, read))
    return files, odd


def _entries(download: Path, opened: contextlib.ExitStack) -> Iterator[tuple]:
    """(path in it, bytes, when it was changed, how to read it) of each file; no link is followed."""
    if download.is_dir():
        for folder, _, names in os.walk(download):
            for path in (Path(folder) / name for name in sorted(names)):
                if path.is_file() and not path.is_symlink():
                    facts = path.stat()
                    yield path.relative_to(download).as_posix(), facts.st_size, facts.st_mtime, path.read_bytes
        return
    archive = opened.enter_context(zipfile.ZipFile(download))
    for entry in archive.infolist():
        if not entry.is_dir():
            yield entry.filename, entry.file_size, _changed(entry), functools.partial(archive.read, entry)


def _changed(entry: zipfile.ZipInfo) -> float:
    try:
        return datetime.datetime(*entry.date_time, tzinfo=datetime.UTC).timestamp()
    except ValueError:  # some programs write no date
        return 0.0


def _by_student(files: list[File], students: dict[str, Student]) -> list[Work]:
    """Each student's, the newest first; of those of one time the later copy."""
    of: dict[str, list[File]] = defaultdict(list)
    for file in files:
        of[file.of.id].append(file)
    works = []
    for number, own in sorted(of.items()):
        student = students.get(number)
        newest_first = sorted(own, key=_age, reverse=True)
        works.append(Work(student.key if student else number, newest_first, student))
    return works


def _age(file: File) -> tuple:
    """What is larger for a newer file of one student."""
    return file.changed, file.of.number, copy_number(file.of.file), file.of.file


def _refuse_another_unit(course: Course, unit: str, works: list[Work]) -> None:
    """Raises: Refused, if most students handed in the notebook of another unit that was released."""
    released = {known: nbformat.read(course.released_notebook(known), as_version=4)
                for known in course.units("release_directory")}
    units = {name: known for known, notebook in released.items() for name in graded(notebook)}
    found = Counter(another_unit(notebook_of(_content(work.files[0]))[0], released[unit], units) for work in works)
    other, number = found.most_common(1)[0]
    if other and 2 * number > len(works):
        raise Refused(f"{number} of {len(works)} students handed in the notebook of {other}, not of {unit}. Name the unit "
                      "to which this download belongs, or add --yes to take it in all the same")


def _content(file: File) -> bytes:
    """Nothing, if it cannot be read: that is said when it is kept."""
    try:
        return file.read()
    except UNREADABLE:
        return b""


def _in_words(unit: str, works: list[Work], students: dict[str, Student], before: Collection[str], odd: list[str],
              assigned: CourseFile) -> Iterator[str]:
    """What an instructor should know, line by line. before: students whose work is there already."""
    yield f"{unit}: notebooks of {len(works)} student{'' if len(works) == 1 else 's'}."
    there = {work.of.id for work in works}
    missing = {student.id: plain(student.name) for student in students.values() if student.id not in there}
    kept = {number for number in missing if {number, students[number].key} & set(before)}
    known = {work.key for work in works} | {work.of.id for work in works} | {
        name for student in students.values() for name in (student.id, student.email)}
    unread = [f"{plain(student.name)} ({plain(student.said)})" for student in students.values()
              if student.said and student.when is None]
    for words, names in (
            ("Of several notebooks the newest is marked first", [
                f"{work} ({plain(work.of.file)} of {len(work.files)})" for work in works if len(work.files) > 1]),
            ("Late", [f"{work} ({how})" for work in works if (how := _late(work, assigned, unit))]),
            ("Times that were not understood, and so are not counted as late", unread),
            ("Handed in nothing", [name for number, name in missing.items() if number not in kept]),
            ("Not in this download; what they handed in before is kept", [missing[number] for number in missing
                                                                          if number in kept]),
            ("Extensions for names that nobody here has", [plain(name) for name, of in assigned.extensions
                                           if of == unit and name not in known]),
            ("Not taken in", odd)):
        if names:
            yield f"{words} ({len(names)}): {'; '.join(names)}"


def _extensions(unit: str, students: Iterable[Student], assigned: CourseFile) -> Iterator[str]:
    """The platform's extensions that course.toml does not have, as lines for it."""
    missing = [student for student in students if student.extension and not any(
        (name, unit) in assigned.extensions for name in (student.id, student.email))]
    if missing and assigned.due(unit):
        yield (f"The platform has extensions that course.toml does not have ({len(missing)}). To grant them here too, put "
               "these lines below its [extensions], each in place of a line for the same student:")
        for student in missing:
            own = {of: until for (name, of), until in assigned.extensions.items() if name in (student.id, student.email)}
            times = ", ".join(f"{of} = {_local(until, assigned)}" for of, until in (own | {unit: student.extension}).items())
            yield f'"{student.key}" = {{ {times} }}'


def _local(when: datetime.datetime, assigned: CourseFile) -> str:
    """A time (in UTC) as course.toml has it."""
    return f"{when.replace(tzinfo=datetime.UTC).astimezone(assigned.zone):%Y-%m-%dT%H:%M:%S}"


def _due(work: Work, assigned: CourseFile, unit: str) -> datetime.datetime | None:
    return assigned.due(unit, work.of.id, work.key, work.student.email if work.student else "")


def _when(work: Work, assigned: CourseFile, unit: str) -> datetime.datetime | None:
    """When it was handed in, in UTC, as far as the platform says; one that only says "late" is taken for a second late.

    Whoever has an extension may be late by the platform's word, and in time by the course's.
    """
    if work.student is not None and work.student.when:
        return work.student.when
    due = assigned.due(unit)
    return due + A_SECOND if due and work.of.late and _due(work, assigned, unit) == due else None


def _late(work: Work, assigned: CourseFile, unit: str) -> str:
    """By how much; "" for who was not."""
    when, due = _when(work, assigned, unit), _due(work, assigned, unit)
    if work.of.late and (due is None or due != assigned.due(unit)):
        return "says the platform, which knows no extension" if due else "says the platform"
    if when is None or due is None or when <= due:
        return ""
    if when == due + A_SECOND:
        return "says the platform, and not by how much: it counts as one day"
    hours = (when - due).total_seconds() / 3600
    return f"{hours:.0f} h" if 1 <= hours < 48 else f"{hours / 24:.0f} days" if hours >= 48 else f"{hours * 60:.0f} min"


def _keep(course: Course, unit: str, work: Work, assigned: CourseFile) -> str:
    """In submitted/, the newest notebook under its name without a copy's number; and the student in the gradebook.

    What was there before is kept beside (see REPLACED), if it was something else.  Returns: what went wrong, in words.
    """
    folder = course.folder("submitted_directory", work.key, unit)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".collect-") as made:
        new = Path(made) / unit
        new.mkdir()
        own_names: dict[str, str] = {}
        try:
            for number, file in enumerate(work.files[:1 + MOST_OTHERS]):
                path = new / (_short(without_copy_number(plain(file.of.file)), unit) if number == 0
                              else f"earlier-{number}.ipynb")
                path.write_bytes(file.read())
                os.utime(path, (file.changed, file.changed))
                own_names[path.name] = _another_name(plain(file.of.file), own_names.values())
        except UNREADABLE as error:
            return f"{work}: {plain(file.of.file)} cannot be read ({type(error).__name__}: {error!s:.100})"
        if when := _when(work, assigned, unit):
            (new / TIMESTAMP).write_text(f"{when:%Y-%m-%d %H:%M:%S} UTC\n")
        if len(own_names) > 1:
            (new / NAMES).write_text(json.dumps(own_names, indent=1), encoding="utf-8")
        if folder.exists():
            _set_aside(course, unit, work, folder, new)
        os.replace(new, folder)
    with course.gradebook() as gradebook:
        gradebook.update_or_create_student(work.key, **_facts(work))
    return ""


def _another_name(name: str, known: Collection[str]) -> str:
    """The student's name of a file, where it is not another file's too."""
    while name in known:
        name += " (older)"
    return name


def _short(name: str, unit: str) -> str:
    """A name that any disk takes; the unit's, where nothing is left of it."""
    stem = name.removesuffix(".ipynb").strip(". ") if name.lower().endswith(".ipynb") else name
    return f"{stem.removesuffix('.IPYNB')[:LONGEST_NAME] or unit}.ipynb"


def _facts(work: Work) -> dict[str, str]:
    """What the gradebook is told of a student: no less than it may know already."""
    name = work.student.name if work.student else work.of.name
    last, comma, first = plain(name).partition(", ")
    if not comma:
        first, _, last = plain(name).rpartition(" ")
    facts = {"first_name": first, "last_name": last} if name != work.key else {}  # "Lee, Ann" in the formgrader
    return facts | ({"email": work.student.email} if work.student and work.student.email else {})


def _set_aside(course: Course, unit: str, work: Work, folder: Path, new: Path) -> None:
    """What stood there before."""
    before, now = ({path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} for place in (folder, new))
    if before == now:
        shutil.rmtree(folder)
        return
    place = course.root / COLLECTED / unit / REPLACED
    place.mkdir(parents=True, exist_ok=True)
    number = sum(path.name.startswith(f"{work.key} ") for path in place.iterdir()) + 1
    shutil.move(folder, place / f"{work.key} {number}")


def _keep_for_handing_back(course: Course, arguments: argparse.Namespace, works: list[Work], text: str) -> None:
    """Also of those who were taken in before."""
    folder = course.root / COLLECTED / arguments.unit
    folder.mkdir(parents=True, exist_ok=True)
    now = {work.key: {"id": work.of.id, "name": work.of.name, "place": work.of.place} for work in works}
    (folder / PLACES).write_text(json.dumps(course.places(arguments.unit) | now, indent=1), encoding="utf-8")
    if text:
        (folder / "roster.csv").write_text(text, encoding="utf-8")
