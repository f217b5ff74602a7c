"""Take in what a learning platform collected: a file's name does not matter; who is missing and who was late is said."""

import argparse
import datetime
import json
import os
import shutil
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grader.course.course_file import NAME, PLATFORMS, BadCourseFile, CourseFile, course_in
from grader.course.folder import OWN_FILES, TIMESTAMP, Course, CourseError
from grader.course.platforms import BadTable, HandedIn, Student, handed_in, roster, without_copy_number
from grader.course.reading import MAX_BYTES
from grader.course.shown import plain

COLLECTED = "collected"  # beside submitted/: what handing back needs of a unit's download
SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("platform", choices=PLATFORMS, help="where it comes from")
    parser.add_argument("download", type=Path, metavar="FILE.zip", help="what the platform gave, or a folder with it")
    parser.add_argument("unit", help="for example 01_collectives")
    parser.add_argument("--roster", type=Path, metavar="FILE.csv",
                        help="who takes part: Moodle's grading worksheet, Canvas's gradebook, or a table id,name,email")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be taken in")


@dataclass(frozen=True)
class File:
    """One file of a download; changed: when, in seconds, as the archive or the disk has it."""

    of: HandedIn
    content: bytes
    changed: float


class Refused(ValueError):
    """Nothing was taken in."""


def run(arguments: argparse.Namespace) -> int:
    """0: taken in. 2: refused."""
    try:
        course = Course()
        if arguments.unit not in course.units("release_directory"):
            raise Refused(f"there is no released unit {arguments.unit!r}; there are: "
                          f"{', '.join(course.units('release_directory')) or 'none yet'}")
        assigned = course_in(course.root) if (course.root / NAME).is_file() else CourseFile()
        files, odd = _read(arguments.platform, arguments.download)
        text = arguments.roster.read_text(encoding="utf-8-sig") if arguments.roster else ""
        students = {student.id: student for student in roster(arguments.platform, text, assigned.zone)} if text else {}
        of = _by_student(files)
        if not of:
            raise Refused(f"{arguments.download} holds no notebook that {arguments.platform} would have collected" + (
                f"; it holds {', '.join(odd[:SHOWN])}" if odd else ""))
    except (Refused, BadTable, BadCourseFile, CourseError, OSError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        print(f"Nothing was taken in: {plain(str(error))}", file=sys.stderr)
        return 2
    print("\n".join(_in_words(arguments.unit, of, students, odd, assigned)))
    if not arguments.dry_run:
        for student, own in of.items():
            _keep(course, arguments.unit, student, own, students.get(student), assigned)
        _keep_for_handing_back(course, arguments, of, text)
    return 0


def _read(platform: str, download: Path) -> tuple[list[File], list[str]]:
    """(the notebooks of students, what else there is)"""
    files, odd = [], []
    for path, size, changed, read in _entries(download):
        found = handed_in(platform, path)
        if PurePosixPath(path).name.startswith(OWN_FILES) or path.startswith("__MACOSX"):
            continue
        if found is None or not found.file.lower().endswith(".ipynb"):
            odd.append(plain(path) if found is None else f"{plain(found.name)}: {plain(found.file)}")
        elif size > MAX_BYTES:
            odd.append(f"{plain(found.name)}: {plain(found.file)} has more than {MAX_BYTES >> 20} MiB")
        else:
            files.append(File(found, read(), changed))
    return files, odd


def _entries(download: Path) -> Iterator[tuple]:
    """(path in it, bytes, when it was changed, how to read it) of each file; no link is followed."""
    if download.is_dir():
        for folder, _, names in os.walk(download):
            for path in (Path(folder) / name for name in sorted(names)):
                if path.is_file() and not path.is_symlink():
                    facts = path.stat()
                    yield path.relative_to(download).as_posix(), facts.st_size, facts.st_mtime, path.read_bytes
        return
    with zipfile.ZipFile(download) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                changed = datetime.datetime(*entry.date_time, tzinfo=datetime.UTC).timestamp()
                yield entry.filename, entry.file_size, changed, lambda entry=entry: archive.read(entry)


def _by_student(files: list[File]) -> dict[str, list[File]]:
    """Each student's, the newest first; of those of one time the later copy."""
    of: dict[str, list[File]] = defaultdict(list)
    for file in files:
        of[file.of.id].append(file)
    return {student: sorted(own, key=lambda file: (file.changed, file.of.file), reverse=True)
            for student, own in sorted(of.items())}


def _in_words(unit: str, of: dict[str, list[File]], students: dict[str, Student], odd: list[str],
              assigned: CourseFile) -> Iterator[str]:
    """What an instructor should know, line by line."""
    yield f"{unit}: notebooks of {len(of)} student{'' if len(of) == 1 else 's'}."
    several = [f"{_name(own)} ({plain(own[0].of.file)} of {len(own)})" for own in of.values() if len(own) > 1]
    late = [f"{_name(own)} ({how})" for student, own in of.items()
            if (how := _late(own, students.get(student), assigned, unit))]
    missing = [plain(student.name) for student in students.values() if student.id not in of]
    for words, names in (("Of several notebooks the newest is marked first", several), ("Late", late),
                         ("Handed in nothing", missing), ("Not taken in", odd)):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            yield f"{words} ({len(names)}): {', '.join(names[:SHOWN])}{more}"


def _name(own: list[File]) -> str:
    return f"{plain(own[0].of.name)}, {own[0].of.id}" if own[0].of.name != own[0].of.id else plain(own[0].of.id)


def _when(own: list[File], student: Student | None, assigned: CourseFile, unit: str) -> datetime.datetime | None:
    """When it was handed in, in UTC, as far as the platform says: by its table, or that it was late."""
    if student is not None and student.when:
        return student.when
    due = assigned.due(own[0].of.id, unit)
    if due is None or not own[0].of.late:
        return None
    stamped = datetime.datetime.fromtimestamp(own[0].changed, datetime.UTC).replace(tzinfo=None)
    return max(stamped, due + datetime.timedelta(seconds=1))


def _late(own: list[File], student: Student | None, assigned: CourseFile, unit: str) -> str:
    """By how much; "" for who was not."""
    when, due = _when(own, student, assigned, unit), assigned.due(own[0].of.id, unit)
    if when is None or due is None or when <= due:
        return "the platform says so" if own[0].of.late and due is None else ""
    hours = (when - due).total_seconds() / 3600
    return f"{hours:.0f} h" if 1 <= hours < 48 else f"{hours / 24:.0f} days" if hours >= 48 else f"{hours * 60:.0f} min"


def _keep(course: Course, unit: str, student: str, own: list[File], known: Student | None, assigned: CourseFile) -> None:
    """In submitted/, the newest notebook under its name without a copy's number; and the student in the gradebook."""
    folder = course.folder("submitted_directory", student, unit)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, file in enumerate(own):
        name = without_copy_number(plain(file.of.file)) if number == 0 else f"earlier {number} {plain(file.of.file)}"
        (folder / name).write_bytes(file.content)
        os.utime(folder / name, (file.changed, file.changed))
    if when := _when(own, known, assigned, unit):
        (folder / TIMESTAMP).write_text(f"{when:%Y-%m-%d %H:%M:%S} UTC\n")
    with course.gradebook() as gradebook:
        name = known.name if known else own[0].of.name
        gradebook.update_or_create_student(student, first_name=plain(name), email=known.email if known else None)


def _keep_for_handing_back(course: Course, arguments: argparse.Namespace, of: dict[str, list[File]], text: str) -> None:
    folder = course.root / COLLECTED / arguments.unit
    folder.mkdir(parents=True, exist_ok=True)
    places = {student: {"name": own[0].of.name, "place": own[0].of.place} for student, own in of.items()}
    (folder / "places.json").write_text(json.dumps({"platform": arguments.platform, "students": places}, indent=1))
    if text:
        (folder / "roster.csv").write_text(text, encoding="utf-8")
