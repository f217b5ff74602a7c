"""What students ask to have looked at again: text files in requests/UNIT/, and the answers that are written into them."""

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from grader.course import files
from grader.course.course_file import nearest
from grader.course.files import BadFile
from grader.course.folder import OWN_FILES, Course
from grader.course.shown import plain

FOLDER, ENDING = "requests", ".txt"
MOST_BYTES = 64 << 10
_EXERCISE = re.compile(r"[>\s*]*exercise[\s*]*:(.*)", re.I)
_ANSWER = re.compile(r"[\s*]*answer[\s*]*:(.*)", re.I)
_AROUND_A_NAME = " \t*`'\"“”.,()"


@dataclass(frozen=True)
class Request:
    """What one student says of one exercise's marks. answer: the instructor's, "" while there is none."""

    student: str
    unit: str
    exercise: str
    words: str
    answer: str = ""
    file: str = ""

    @property
    def replay(self) -> str:
        """The command that marks her exercise once more, on the cases of the last time."""
        return (f"python -m grader autograde {self.unit} --student {shlex.quote(self.student)} --exercise {self.exercise} "
                "--same-cases")


def requests_for(course: Course, unit: str, titles: Mapping[str, str],
                 students: Collection[str]) -> tuple[list[Request], list[str]]:
    """(the requests, by student, and in words what is wrong with files that hold none).

    titles: of the unit's exercises, by name; students: who is marked. One bad file stops no other. Never raises.
    """
    root, found, wrong = course.root / FOLDER, [], []
    if not os.path.lexists(root):
        return found, wrong
    try:
        units = course.units("source_directory", "release_directory")
        wrong += [f"{FOLDER}/{plain(str(entry))} is not used: expected the folder of a unit, such as {FOLDER}/{unit}"
                  f"{nearest(entry.name, units)}" for entry in files.entries(root, root)
                  if entry.name not in units and not entry.name.startswith(OWN_FILES)]
        entries = files.entries(root / unit, root) if os.path.lexists(root / unit) else []
    except BadFile as error:
        return found, [*wrong, str(error)]
    for entry in entries:
        if entry.name.startswith(OWN_FILES):
            continue
        file = f"{FOLDER}/{unit}/{plain(entry.name)}"
        try:
            if not entry.name.endswith(ENDING):
                raise ValueError(f"is not used: expected a text file that is called STUDENT{ENDING}")
            student = _student(course, unit, entry.name.removesuffix(ENDING), students)
            content = files.read(root / unit / entry.name, root, MOST_BYTES)
            found += [Request(student, unit, *parts, file) for parts in parsed(content, titles)]
        except BadFile as error:
            wrong.append(f"{file} {error.words}")
        except ValueError as error:
            wrong.append(f"{file} {error}")
    return found, wrong


def _student(course: Course, unit: str, name: str, students: Collection[str]) -> str:
    """Whom the gradebook knows by this name, or by this number of the platform.  Raises: ValueError."""
    student, = course.by_names(unit, [name])
    if student not in students:
        raise ValueError(f"is called after {plain(name)!r}, and nobody of that name is marked in {unit}: expected the "
                         f"e-mail or number by which she is marked{nearest(name, students)}")
    return student


def parsed(content: bytes, titles: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(exercise, the student's words, the answer) of each request in a file.

    A line "Exercise: reduce" begins one; what stands above the first belongs to it. A line "Answer: …" begins its answer.
    Raises: ValueError, which says the line, what was expected and what came.
    """
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError("is not in UTF-8: save it as UTF-8 in your editor") from None
    heads = [(number, _name(match[1], number, titles)) for number, line in enumerate(lines)
             if (match := _EXERCISE.fullmatch(line))]
    if not heads:
        begins = next((line.strip() for line in lines if line.strip()), "")
        raise ValueError(f"has no line \"Exercise: NAME\", with one of {', '.join(titles)}; "
                         + (f"it begins with “{plain(begins[:60])}”" if begins else "it is empty"))
    for index, (number, exercise) in enumerate(heads):
        end = heads[index + 1][0] if index + 1 < len(heads) else len(lines)
        body = lines[:number] * (index == 0) + lines[number + 1:end]
        at = next((place for place, line in enumerate(body) if _ANSWER.fullmatch(line)), len(body))
        words, answer = _text(body[:at]), _text([_ANSWER.fullmatch(line)[1] for line in body[at:at + 1]] + body[at + 1:])
        if not words:
            raise ValueError(f"has no words below line {number + 1}, \"{plain(lines[number].strip())}\": expected why these "
                             "points should be looked at again")
        yield exercise, words, answer


def _name(said: str, number: int, titles: Mapping[str, str]) -> str:
    """The exercise that is meant, by its name or its title.  Raises: ValueError."""
    wanted = said.strip(_AROUND_A_NAME).casefold()
    found = next((name for name, title in titles.items() if wanted in (name.casefold(), title.casefold())), None)
    if found is None:
        raise ValueError(f"asks in line {number + 1} for the exercise {plain(said.strip())!r}: expected one of "
                         f"{', '.join(titles)}{nearest(wanted, titles)}")
    return found


def _text(lines: list[str]) -> str:
    """Lines as they were typed, each harmless to a terminal."""
    return "\n".join(plain(line.rstrip()) for line in lines).strip("\n ")
