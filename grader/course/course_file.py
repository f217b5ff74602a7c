"""course.toml: the one file that an instructor edits. Read and checked; what is wrong with it is said with its line."""

import datetime
import difflib
import functools
import re
import tomllib
import zoneinfo
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.contracts import CORE, Contract, contracts_in
from utils.languages.choice import ENGLISH, languages

NAME = "course.toml"
ALL = "all"
SOLVED, LEFT_OUT = OTHERS = "solved", "left out"
AT_THE_TOP = ("title", "timezone", "language", "withdrawn")  # keys that belong to no table
END_OF_DAY = datetime.time(23, 59, 59)


class BadCourseFile(ValueError):
    """course.toml does not say what it could: which line, what was expected, and the nearest name that there is."""


@dataclass(frozen=True)
class Assigned:
    """One unit. exercises: those that are marked, in the unit's order; points: where they differ from the exercise's own;
    due: in UTC."""

    unit: str
    exercises: tuple[str, ...]
    others: str = SOLVED
    points: Mapping[str, float] = field(default_factory=dict)
    due: datetime.datetime | None = None


@dataclass(frozen=True)
class LateRule:
    """What being late costs: so many percent of the points for each day that has begun, nothing after so many days.

    Without a rule lateness costs nothing.
    """

    percent_a_day: float = 0.0
    most_days: float = float("inf")

    def days(self, late: datetime.timedelta) -> int:
        """How many days have begun."""
        return -(-late // datetime.timedelta(days=1))

    def penalty(self, points: float, late: datetime.timedelta) -> float:
        """Points to take off, at most all of them."""
        days = self.days(late)
        if days <= 0:
            return 0.0
        return points if days > self.most_days else min(points, points * self.percent_a_day / 100 * days)


@dataclass(frozen=True)
class CourseFile:
    """What is assigned.

    extensions: (student, unit) → until when, in UTC; withdrawn: exercises that count 0 of 0; zone: of times that name none;
    language: of verdicts and feedback.
    """

    title: str = ""
    units: Mapping[str, Assigned] = field(default_factory=dict)
    late: LateRule = LateRule()
    extensions: Mapping[tuple[str, str], datetime.datetime] = field(default_factory=dict)
    withdrawn: frozenset[str] = frozenset()
    zone: datetime.tzinfo = datetime.UTC
    language: str = ENGLISH

    def due(self, unit: str, *names: str) -> datetime.datetime | None:
        """Until when may hand in whoever goes by one of these names (a number, an e-mail); None: at any time."""
        own = next((self.extensions[name, unit] for name in names if (name, unit) in self.extensions), None)
        return own or (self.units[unit].due if unit in self.units else None)

    def points(self, exercise: str, unit: str, own: float) -> float:
        """How many points an exercise has, which has `own` by itself."""
        return 0.0 if exercise in self.withdrawn else self.units[unit].points.get(exercise, own)


def read(path: Path, contracts: Mapping[str, Iterable[Contract]]) -> CourseFile:
    """contracts: of each unit, what its exercises are.  Raises: BadCourseFile."""
    try:
        text = path.read_text(encoding="utf-8")
        return _Reader(path, text, {unit: list(known) for unit, known in contracts.items()}).course(tomllib.loads(text))
    except UnicodeDecodeError:
        raise BadCourseFile(f"{path} is not in UTF-8: save it as UTF-8 in your editor") from None
    except tomllib.TOMLDecodeError as error:
        raise BadCourseFile(f"{path}: {error}. Names with a space, a dot or an umlaut stand in quotation marks, "
                            "and so does every text") from None


def course_in(root: Path) -> CourseFile:
    """What the course.toml of a folder says of the units in its solutions/.  Raises: BadCourseFile, also without one."""
    if (course := course_if_any(root)) is None:
        raise BadCourseFile(f"there is no {root / NAME}: copy course.example.toml to {NAME}, and edit the copy")
    return course


def course_if_any(root: Path, name: str = NAME) -> CourseFile | None:
    """The same; None where the folder has no course.toml, or no other file of this name.  Raises: BadCourseFile."""
    file = root / name
    if not file.is_file():
        return None
    notebooks = sorted(path for path in (root / "solutions").glob("[0-9]*/*.ipynb") if path.stem == path.parent.name)
    return _read_once(file, tuple(notebooks), tuple(path.stat().st_mtime_ns for path in (file, *notebooks)))


@functools.lru_cache(maxsize=2)
def _read_once(path: Path, notebooks: tuple[Path, ...], changed_ns: tuple[int, ...]) -> CourseFile:
    """Whoever marks a class asks for each submission, and reads the file again only if something has changed."""
    return read(path, {notebook.stem: contracts_in(notebook) for notebook in notebooks})


class _Reader:
    """Turns what the file says into a CourseFile, or says in which line it cannot."""

    def __init__(self, path: Path, text: str, contracts: dict[str, list[Contract]]):
        self._path, self._lines, self._contracts = path, text.split("\n"), contracts
        self._zone: datetime.tzinfo = datetime.UTC
        self._from = 0  # the line in which the table begins that is being read

    def course(self, said: dict[str, Any]) -> CourseFile:
        self._known(said, (*AT_THE_TOP, "late", "units", "extensions"), "")
        zone = self._text(said, "timezone", "UTC")
        try:
            self._zone = zoneinfo.ZoneInfo(zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise self._bad("timezone", f"there is no time zone {zone!r}; expected one like \"Europe/Berlin\" or \"UTC\""
                                        f"{nearest(zone, zoneinfo.available_timezones())}") from None
        units = {unit: self._unit(unit, facts) for unit, facts in self._table(said, "units").items()}
        exercises = {contract.name for known in self._contracts.values() for contract in known}
        withdrawn = self._names(said.get("withdrawn", []), "withdrawn", exercises, "exercise")
        late, extensions = self._late(self._table(said, "late")), self._extensions(self._table(said, "extensions"))
        language = self._one_of(said, "language", languages(), ENGLISH)
        return CourseFile(self._text(said, "title", ""), units, late, dict(extensions), frozenset(withdrawn), self._zone,
                          language)

    def _unit(self, unit: str, facts: Any) -> Assigned:
        if unit not in self._contracts:
            raise self._bad(unit, f"there is no unit {unit!r}; expected one of {', '.join(self._contracts)}"
                                  f"{nearest(unit, self._contracts)}")
        if not isinstance(facts, dict):
            raise self._bad(unit, f"[units.{unit}] is expected to have lines such as exercises = \"core\", found {facts!r}")
        self._from = max(self._line_of(f"units.{unit}") or 0, self._line_of(unit) or 0)
        self._known(facts, ("exercises", "others", "points", "due"), f"units.{unit}")
        contracts = self._contracts[unit]
        names = [contract.name for contract in contracts]
        asked = facts.get("exercises", ALL)
        if asked == CORE:
            chosen = [contract.name for contract in contracts if contract.path == CORE]
        elif asked == ALL:
            chosen = names
        elif isinstance(asked, str):
            raise self._bad(asked, f"exercises of {unit}: expected \"{CORE}\", \"{ALL}\" or a list of names, "
                                   f"found {asked!r}")
        else:
            listed = self._names(asked, "exercises", names, f"exercise of {unit}")
            chosen = [name for name in names if name in listed]
        points = self._table(facts, "points")
        self._names(list(points), "points", chosen, f"assigned exercise of {unit}")
        for name, number in points.items():
            self._number(number, name, f"points of {name}")
        return Assigned(unit, tuple(chosen), self._one_of(facts, "others", OTHERS, SOLVED), points,
                        self._time(facts["due"], "due") if "due" in facts else None)

    def _late(self, facts: dict[str, Any]) -> LateRule:
        self._known(facts, ("percent_a_day", "most_days"), "late")
        return LateRule(**{name: self._number(number, name, name) for name, number in facts.items()})

    def _extensions(self, said: dict[str, Any]) -> Iterable[tuple[tuple[str, str], datetime.datetime]]:
        for student, until in said.items():
            if not isinstance(until, dict):
                self._refuse_below_a_table(student)
                raise self._bad(student, f"an extension is expected as \"{student}\" = {{ 01_collectives = 2027-05-10 }}, "
                                         f"found {until!r}")
            for unit, time in until.items():
                if unit not in self._contracts:
                    raise self._bad(student, f"an extension of {student} is for {unit!r}, and there is no such unit"
                                             f"{nearest(unit, self._contracts)}")
                yield (student, unit), self._time(time, student)

    # ── parts, and what is wrong with them ──

    def _time(self, value: Any, where: str) -> datetime.datetime:
        """In UTC; a day means its last second, and a time without an offset is one of the course's time zone."""
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            value = datetime.datetime.combine(value, END_OF_DAY)
        if not isinstance(value, datetime.datetime):
            raise self._bad(where, f"expected a day or a time without quotation marks, such as 2027-05-03 or "
                                   f"2027-05-03T18:00:00, found {value!r}")
        return (value if value.tzinfo else value.replace(tzinfo=self._zone)).astimezone(datetime.UTC).replace(tzinfo=None)

    def _number(self, value: Any, word: str, what: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise self._bad(word, f"{what}: expected a number that is 0 or more, found {value!r}")
        return float(value)

    def _names(self, names: Any, where: str, known: Iterable[str], kind: str) -> list[str]:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise self._bad(where, f"{where}: expected a list of names, such as [\"ring_all_gather\"], found {names!r}")
        for name in names:
            if name not in (known := list(known)):
                raise self._bad(name, f"there is no {kind} called {name!r}; there are: {', '.join(known)}"
                                      f"{nearest(name, known)}")
        return names

    def _known(self, said: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
        for key in said:
            if key not in keys:
                self._refuse_below_a_table(key)
                raise self._bad(key, f"{f'[{where}] has' if where else 'there is'} no {key!r}; expected one of "
                                     f"{', '.join(keys)}{nearest(key, keys)}")

    def _refuse_below_a_table(self, key: str) -> None:
        """In TOML a line belongs to the table above it.  Raises: BadCourseFile for one that belongs to none."""
        first = next((line.strip() for line in self._lines if line.lstrip().startswith("[")), "")
        if key in AT_THE_TOP and first:
            raise self._bad(key, f"{key} belongs above the first table, which is {first.partition('#')[0].strip()}. Here "
                                 "it is a line of the table above it")

    def _table(self, said: dict[str, Any], key: str) -> dict[str, Any]:
        table = said.get(key, {})
        if not isinstance(table, dict):
            raise self._bad(key, f"{key}: expected a table, [{key}] with lines below it, found {table!r}")
        return table

    def _text(self, said: dict[str, Any], key: str, default: str) -> str:
        if not isinstance(text := said.get(key, default), str):
            raise self._bad(key, f"{key}: expected a text in quotation marks, found {text!r}")
        return text

    def _one_of(self, said: dict[str, Any], key: str, allowed: tuple[str, ...], default: str) -> str:
        text = self._text(said, key, default)
        if text not in allowed:
            raise self._bad(key, f"{key}: expected {' or '.join(f'{one!r}' for one in allowed)}, found {text!r}"
                                 f"{nearest(text, allowed)}")
        return text

    def _bad(self, word: str, words: str) -> BadCourseFile:
        """With the line in which the word stands first."""
        number = self._line_of(word, self._from) or self._line_of(word)
        return BadCourseFile(f"{self._path}{f', line {number}' if number else ''}: {words}")

    def _line_of(self, word: str, first: int = 0) -> int | None:
        whole = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
        return next((number for number, line in enumerate(self._lines, 1)
                     if number >= first and whole.search(line.partition("#")[0])), None)


def nearest(name: str, known: Iterable[str]) -> str:
    """A question about the likeliest name; "" where none is like it."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f". Did you mean {close[0]!r}?" if close else ""
