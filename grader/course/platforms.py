"""How learning platforms name what students hand in, and the tables that they give out and take back.

Moodle: "Ann Lee_1234567_assignsubmission_file_" (a folder, or the beginning of a file's name) with the participant's number;
its grading worksheet has who takes part, when each handed in, who has an extension, and a column for the grade.
Canvas: "leeann_LATE_12345_67890_01_collectives-1.ipynb": a name, whether late, the student's number, the file's number; its
gradebook has a row for each student, and under the header a row with the points possible.
A folder: one for each student, whatever is in it.
"""

import csv
import datetime
import difflib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

PLATFORMS = ("moodle", "canvas", "folder")
MOODLE = re.compile(r"(?P<name>[^_/]+)_(?P<id>\d+)_assignsubmission_(?P<plugin>[a-z]+)_?/?(?P<file>.*)", re.S)
CANVAS = re.compile(r"(?P<name>[^_/]*)_(?P<late>LATE_)?(?P<id>\d+)_(?P<attachment>\d+)_(?P<file>.+)", re.S)
COPY = re.compile(r"[\s_-]*(?:\((?P<in_brackets>\d+)\)|-(?P<behind>\d+))$")
EXTENSION = re.compile(r"Extension granted until:?\s*(?P<when>.*?)(?: - |$)")  # in the column Status of Moodle's worksheet
HIDDEN = (".", "__MACOSX")
TEST_STUDENT = "Student, Test"  # Canvas's own, whom an instructor can be to see what students see
IN_ENGLISH = (". Moodle writes the worksheet in the language of your account: switch Moodle to English, and download the "
              "worksheet again")
WHEN = ("%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%A, %B %d, %Y, %I:%M %p", "%d %B %Y, %I:%M %p", "%d %B %Y, %H:%M",
        "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%d/%m/%y, %H:%M", "%d/%m/%Y, %H:%M")


class BadTable(ValueError):
    """A table that a platform gave out is not as expected."""


@dataclass(frozen=True)
class HandedIn:
    """A file of one student in a platform's download.

    id: the platform's number, or the folder's name; place: the part of the path that the platform takes back; file: what
    the student called it; late: as the platform says in the name; number: the platform's of the file, 0 if it has none.
    """

    id: str
    name: str
    file: str
    place: str
    late: bool = False
    number: int = 0


@dataclass(frozen=True)
class Student:
    """Somebody who takes part. id: the platform's number; when: of the last handing in, in UTC, if that is known; said: the
    time in the platform's words; extension: until when she may hand in by the platform, in UTC."""

    id: str
    name: str
    email: str = ""
    when: datetime.datetime | None = None
    said: str = ""
    extension: datetime.datetime | None = None

    @property
    def key(self) -> str:
        """Whom the gradebook knows her as: her e-mail, because Moodle's numbers are those of one assignment."""
        return self.email if "@" in self.email and "/" not in self.email else self.id


def handed_in(platform: str, path: str) -> HandedIn | None:
    """What a path in the platform's download says; None for what is no student's file."""
    parts = PurePosixPath(path).parts
    if any(part in ("..", "/") or part.startswith(HIDDEN) for part in parts):
        return None
    if platform == "moodle":
        for start in range(len(parts)):  # some put all of it into a folder of its own
            rest = "/".join(parts[start:])
            if (found := MOODLE.fullmatch(rest)) and found["plugin"] == "file" and found["file"]:
                place = f"{found['name']}_{found['id']}_assignsubmission_file_"
                return HandedIn(found["id"], found["name"], PurePosixPath(found["file"]).name, place)
    elif platform == "canvas":
        if found := CANVAS.fullmatch(parts[-1]):
            place = f"{found['name']}_{found['late'] or ''}{found['id']}_{found['attachment']}_"
            return HandedIn(found["id"], found["name"], found["file"], place, bool(found["late"]),
                            int(found["attachment"]))
    elif len(parts) >= 2:
        return HandedIn(parts[0], parts[0], parts[-1], parts[0])
    return None


def without_copy_number(file: str) -> str:
    """01_collectives (1).ipynb, 01_collectives-2.ipynb → 01_collectives.ipynb"""
    stem, dot, extension = file.rpartition(".")
    return COPY.sub("", stem) + dot + extension if dot else COPY.sub("", file)


def copy_number(file: str) -> int:
    """2 of 01_collectives-2.ipynb; 0 of a name without a copy's number."""
    found = COPY.search(file.rpartition(".")[0] or file)
    return int(found["in_brackets"] or found["behind"]) if found else 0


def roster(platform: str, text: str, zone: datetime.tzinfo = datetime.UTC) -> list[Student]:
    """Who takes part, from Moodle's grading worksheet, Canvas's gradebook, or a table with id, name and email.

    Raises: BadTable, saying which columns were expected.
    """
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
    header = list(rows[0]) if rows else text.removeprefix("\ufeff").split("\n")[0].split(",")
    if platform == "moodle":
        _require(header, "Identifier", "Full name", otherwise=IN_ENGLISH)
        rows = [row for row in rows if row["Identifier"]]
        said = [(row.get("Last modified (submission)") or "").strip(" -") for row in rows]
        return [Student(_digits(row["Identifier"]), row["Full name"], row.get("Email address") or "", _time(when, zone),
                        when, _extension(row.get("Status") or "", zone)) for row, when in zip(rows, said, strict=True)]
    if platform == "canvas":
        _require(header, "Student", "ID")
        return [Student(row["ID"].strip(), row["Student"], row.get("SIS Login ID") or "") for row in rows
                if (row["ID"] or "").strip().isdigit() and row["Student"].strip() != TEST_STUDENT]  # nor the points possible
    _require(header, "id", "name")
    return [Student(row["id"], row["name"], row.get("email") or "") for row in rows]


def _require(header: Sequence[str], *columns: str, otherwise: str = "") -> None:
    """otherwise: what to do where one is missing."""
    if missing := [column for column in columns if column not in header]:
        raise BadTable(f"there is no column {' or '.join(map(repr, missing))}; there are {', '.join(map(repr, header))}"
                       f"{otherwise}")


def _digits(identifier: str) -> str:
    return "".join(filter(str.isdigit, identifier))


def _time(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    """In UTC; None for "-", or for a language whose months are not known here."""
    for form in WHEN:
        try:
            when = datetime.datetime.strptime(text.strip(), form)
        except ValueError:
            continue
        return when.replace(tzinfo=zone).astimezone(datetime.UTC).replace(tzinfo=None)
    return None


def _extension(status: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    found = EXTENSION.search(status)
    return _time(found["when"], zone) if found else None


@dataclass(frozen=True)
class Mark:
    """What goes back to one student. id: the platform's; points: with penalties and what was given by hand; feedback: the
    page's content; student: whom the gradebook knows her as; outdated: whether it was given before points changed."""

    id: str
    points: float
    most: float
    feedback: bytes = b""
    place: str = ""
    student: str = ""
    outdated: bool = False


def marks_table(platform: str, title: str, marks: Iterable[Mark], given_out: str) -> str:
    """The table that the platform gave out, with the points in it, and only the rows of students with marks.

    Moodle's begins with a byte order mark if it did before.

    Raises: BadTable.
    """
    of = {mark.id: mark for mark in marks}
    rows = list(csv.reader(io.StringIO(given_out.removeprefix("\ufeff"))))
    if not rows:
        raise BadTable("the table is empty")
    header, *body = rows
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    if platform == "moodle":
        _require(header, "Identifier", "Grade", otherwise=IN_ENGLISH)
        identifier, grade = header.index("Identifier"), header.index("Grade")
        out.write("\ufeff" if given_out.startswith("\ufeff") else "")
        writer.writerow(header)
        for row in body:
            if row and (mark := of.get(_digits(row[identifier]))):
                writer.writerow([*row[:grade], f"{mark.points:g}", *row[grade + 1:]])
    elif platform == "canvas":
        _require(header, "Student", "ID")
        column, known = _canvas_column(header, title), [name for name in CANVAS_COLUMNS if name in header]
        places = [header.index(name) for name in known]
        writer.writerow([*known, column])
        for row in body:
            if row and (mark := of.get(row[header.index("ID")].strip())):
                writer.writerow([*(row[place] for place in places), f"{mark.points:g}"])
    else:
        _require(header, "id")
        writer.writerow(["id", "points", "of"])
        for row in body:
            if row and (mark := of.get(row[header.index("id")])):
                writer.writerow([mark.id, f"{mark.points:g}", f"{mark.most:g}"])
    return out.getvalue()


NUMBER = re.compile(r" \(\d+\)$")  # which Canvas puts behind an assignment's title
CANVAS_COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")  # without these Canvas takes no table


def _canvas_column(header: Sequence[str], title: str) -> str:
    """The assignment's column, "Unit 01 (98765)": by its title, with or without its number.

    Raises: BadTable, because Canvas would make a new assignment of any other name.
    """
    assignments = {name: NUMBER.sub("", name) for name in header if NUMBER.search(name)
                   or (name.casefold() == title.casefold() and name not in CANVAS_COLUMNS)}
    for name, short in assignments.items():
        if title.casefold() in (name.casefold(), short.casefold()):
            return name
    known = {short.casefold(): short for short in assignments.values()}
    close = difflib.get_close_matches(title.casefold(), known, 1)
    raise BadTable(f"no assignment is called {title!r}, and Canvas would make a new one of that name. "
                   + (f"The table's assignments are {', '.join(map(repr, known.values()))}: name yours with --title"
                      if known else "The table has no assignment at all: make one on Canvas and export the gradebook again")
                   + (f". Did you mean {known[close[0]]!r}?" if close else ""))


def most_in(platform: str, title: str, given_out: str) -> float | None:
    """How many points the assignment has on the platform, by the table that it gave out; None where that does not say.

    Raises: BadTable.
    """
    rows = list(csv.DictReader(io.StringIO(given_out.removeprefix("\ufeff"))))
    said: Iterable[str | None] = ()
    if platform == "moodle":
        said = [text for row in rows for name, text in row.items() if name and name.casefold() == "maximum grade"]
    elif platform == "canvas" and rows:
        column = _canvas_column(list(rows[0]), title)
        said = [row[column] for row in rows if (row["Student"] or "").strip() == "Points Possible"]
    for text in said:
        try:
            return float(text or "")
        except ValueError:
            continue
    return None


def feedback_files(platform: str, marks: Iterable[Mark]) -> Iterator[tuple[str, bytes]]:
    """(path in the archive, content), as the platform takes it."""
    for mark in marks:
        if mark.feedback:
            between = "" if platform == "canvas" else "/"
            yield f"{mark.place}{between}feedback.html", mark.feedback
