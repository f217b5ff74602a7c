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
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grader.course.course_file import BadCourseFile, CourseFile, course_if_any
from grader.course.folder import COLLECTED, MOST_OTHERS, OWN_FILES, PLACES, TIMESTAMP, Course, CourseError
from grader.course.platforms import PLATFORMS, BadTable, HandedIn, Student, handed_in, roster, without_copy_number
from grader.course.reading import MAX_BYTES
from grader.course.shown import plain

REPLACED = "replaced"  # what stood in submitted/ before, in the unit's folder in COLLECTED
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
            text = arguments.roster.read_text(encoding="utf-8-sig") if arguments.roster else ""
            students = {student.id: student for student in roster(arguments.platform, text, assigned.zone)} if text else {}
            works = _by_student(files, students)
            if not works:
                raise Refused(f"{arguments.download} holds no notebook that {arguments.platform} would have collected" + (
                    f"; it holds {', '.join(odd[:SHOWN])}" if odd else ""))
        except (Refused, BadTable, BadCourseFile, CourseError, OSError, zipfile.BadZipFile, UnicodeDecodeError) as error:
            print(f"Nothing was taken in: {plain(str(error))}", file=sys.stderr)
            return 2
        if not arguments.dry_run:
            odd += [problem for work in works if (problem := _keep(course, arguments.unit, work, assigned))]
            _keep_for_handing_back(course, arguments, works, text)
        print("\n".join(_in_words(arguments.unit, works, students, odd, assigned)))
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
    """Each student's, the newest first; of those of one time the later copy.

    Moodle's numbers are those of one assignment, so whoever's e-mail is known is known by that in the gradebook.
    """
    of: dict[str, list[File]] = defaultdict(list)
    for file in files:
        of[file.of.id].append(file)
    works = []
    for number, own in sorted(of.items()):
        student = students.get(number)
        newest_first = sorted(own, key=lambda file: (file.changed, file.of.file), reverse=True)
        known = student is not None and "@" in student.email and "/" not in student.email
        works.append(Work(student.email if known else number, newest_first, student))
    return works


def _in_words(unit: str, works: list[Work], students: dict[str, Student], odd: list[str],
              assigned: CourseFile) -> Iterator[str]:
    """What an instructor should know, line by line."""
    yield f"{unit}: notebooks of {len(works)} student{'' if len(works) == 1 else 's'}."
    there, known = {work.of.id for work in works}, {work.key for work in works} | {work.of.id for work in works} | {
        name for student in students.values() for name in (student.id, student.email)}
    unread = [f"{plain(student.name)} ({plain(student.said)})" for student in students.values()
              if student.said and student.when is None]
    for words, names in (
            ("Of several notebooks the newest is marked first", [
                f"{work} ({plain(work.of.file)} of {len(work.files)})" for work in works if len(work.files) > 1]),
            ("Late", [f"{work} ({how})" for work in works if (how := _late(work, assigned, unit))]),
            ("Times that were not understood, and so are not counted as late", unread),
            ("Handed in nothing", [plain(student.name) for student in students.values() if student.id not in there]),
            ("Extensions for names that nobody here has", [plain(name) for name, of in assigned.extensions
                                           if of == unit and name not in known]),
            ("Not taken in", odd)):
        if names:
            yield f"{words} ({len(names)}): {'; '.join(names)}"


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
        return "says the platform, and not by how much"
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
        try:
            for number, file in enumerate(work.files[:1 + MOST_OTHERS]):
                path = new / (_short(without_copy_number(plain(file.of.file)), unit) if number == 0
                              else f"earlier-{number}.ipynb")
                path.write_bytes(file.read())
                os.utime(path, (file.changed, file.changed))
        except (OSError, ValueError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            return f"{work}: {plain(file.of.file)} cannot be read ({type(error).__name__}: {error!s:.100})"
        if when := _when(work, assigned, unit):
            (new / TIMESTAMP).write_text(f"{when:%Y-%m-%d %H:%M:%S} UTC\n")
        if folder.exists():
            _set_aside(course, unit, work, folder, new)
        os.replace(new, folder)
    with course.gradebook() as gradebook:
        gradebook.update_or_create_student(work.key, **_facts(work))
    return ""


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
