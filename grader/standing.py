"""progress(): how far this reader is, from the notebooks beside this one and the reader's own record. Not a mark."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.contracts import CHALLENGE, CORE, FURTHER, PATHS, Contract, contracts_in
from grader.judging.html import fill_in
from utils.languages.choice import translated
from utils.notebook import record
from utils.notebook.predictions import RIGHT
from utils.words import padded, width_of

VERSION = Path(__file__).resolve().parents[1] / "VERSION"  # in the students' archive: the course's version and day
NOT_A_MARK = "Your own record, kept on this machine: no mark, and nobody else sees it."
NO_UNITS = "No units are beside this folder: run `progress()` in a unit's notebook."


@dataclass(frozen=True)
class Listed(Contract):
    """An exercise, and how its last check ended.  earned: None if it was never checked."""

    earned: float | None = None
    tries: int = 0

    @property
    def passed(self) -> bool:
        return self.earned is not None and self.earned >= self.points

    @property
    def label(self) -> str:
        """Its title, with a star if it is on the core path."""
        return f"{'★' if self.path == CORE else ' '} {self.title}{' (c)' if self.path == CHALLENGE else ''}"

    @property
    def sign(self) -> str:
        return "✓" if self.passed else "·" if self.earned is None else "✗"

    @property
    def state(self) -> str:
        """In words."""
        if self.earned is None:
            return "not checked yet"
        return f"{self.earned:g} of {self.points:g} points in {self.tries} {'try' if self.tries == 1 else 'tries'}"


@dataclass(frozen=True)
class Unit:
    """A unit, its exercises in order, how many guesses were compared with an answer and right, and how long it took."""

    name: str
    exercises: tuple[Listed, ...]
    guesses: int = 0
    right: int = 0
    spent_s: float = 0.0

    @property
    def row(self) -> tuple[str, ...]:
        """The texts of a table's row: see HEADINGS."""
        stated, core = sum(exercise.minutes for exercise in self.exercises), on(CORE, self.exercises)
        earned = sum(exercise.earned or 0 for exercise in self.exercises)
        return (self.name, f"{n_passed(core)} of {len(core)}" if core else "–",
                f"{n_passed(self.exercises)} of {len(self.exercises)}",
                f"{earned:g} of {sum(exercise.points for exercise in self.exercises):g}",
                f"{self.right} of {self.guesses}" if self.guesses else "–",
                f"{_time(self.spent_s / 60) if self.spent_s else '–'} of {_time(stated)}")


HEADINGS = ("unit", "★ core passed", "all exercises", "points", "guesses right", "time spent, of the planned writing time")
NEXT = {CORE: "Next on the core path", FURTHER: "The core path is done. Next, further", CHALLENGE: "Next, a challenge"}


def on(path: str, exercises: Iterable[Listed]) -> list[Listed]:
    """Those on this path."""
    return [exercise for exercise in exercises if exercise.path == path]


def n_passed(exercises: Iterable[Listed]) -> int:
    """How many of them."""
    return sum(exercise.passed for exercise in exercises)


@dataclass(frozen=True)
class Progress:
    """A table that shows itself.

    here: the unit whose notebook is open, if any; faults: what could not be read; version: of the students' archive, if
    this is one.
    """

    units: tuple[Unit, ...]
    here: str = ""
    faults: tuple[str, ...] = ()
    version: str = ""

    @property
    def small_print(self) -> str:
        return f"{NOT_A_MARK} Version of the course: {self.version}." if self.version else NOT_A_MARK

    @property
    def unit_here(self) -> Unit | None:
        return next((unit for unit in self.units if unit.name == self.here), None)

    @property
    def next_step(self) -> str:
        """The first exercise that is open, in this unit, else in the first unit that has one; the core path comes first."""
        order = sorted(self.units, key=lambda unit: unit.name != self.here)
        for path in PATHS:
            for unit in order:
                for exercise in on(path, unit.exercises):
                    if not exercise.passed:
                        what = f"{exercise.title} ({exercise.name}, {exercise.minutes} minutes), in {unit.name}"
                        return f"{NEXT[path]}: {what}."
        return "Everything is done. Which of the open problems do you take?" if self.units else ""

    @property
    def core(self) -> str:
        """How far the core path has come."""
        core = on(CORE, (exercise for unit in self.units for exercise in unit.exercises))
        done, stated = (sum(e.minutes for e in some) for some in ([e for e in core if e.passed], core))
        return f"Core path: {n_passed(core)} of {len(core)} exercises, {_time(done)} of {_time(stated)} of writing."

    def __repr__(self) -> str:
        if not self.units:
            return "\n".join(map(translated, [*self.faults, NO_UNITS.replace("`", "")]))
        lines = [*map(translated, self.faults), *_aligned([HEADINGS, *(unit.row for unit in self.units)])]
        if self.unit_here:
            rows = [(f"  {exercise.sign} {exercise.label}", exercise.state) for exercise in self.unit_here.exercises]
            lines += [translated(f"In {self.here}:"), *_aligned(rows)]
        return "\n".join([*lines, *map(translated, (self.core, self.next_step, self.small_print))])

    def _repr_html_(self) -> str:
        return fill_in(__file__, progress=self, headings=HEADINGS, no_units=NO_UNITS)


def progress(folder: str | Path | None = None) -> Progress:
    """How far you are, and what to do next.  folder: where the units' folders are, if not beside the open notebook's."""
    place = Path.cwd().parent if folder is None else Path(folder)
    try:
        data, fault = record.read(place / record.NAME)
    except OSError as error:
        raise OSError(f"{place / record.NAME} cannot be read: {error}") from None
    faults = (f"{fault}: it is not used, and the next check sets it aside and begins a new one.",) if fault else ()
    units = tuple(_unit(path, data) for path in sorted(place.glob("*/*.ipynb")) if path.stem == path.parent.name)
    version = VERSION.read_text(encoding="utf-8").strip() if VERSION.is_file() else ""
    return Progress(tuple(unit for unit in units if unit.exercises), Path.cwd().name, faults, version)


def _unit(path: Path, data: record.Data) -> Unit:
    guesses = [guess["verdict"] for guess in data["guesses"].get(path.stem, {}).values() if guess["verdict"]]
    exercises = tuple(_listed(contract, data["checks"].get(contract.name, {})) for contract in contracts_in(path))
    return Unit(path.stem, exercises, len(guesses), guesses.count(RIGHT),
                data["times"].get(path.stem, {}).get("spent_s", 0.0))


def _listed(contract: Contract, last: dict) -> Listed:
    return Listed(**vars(contract), earned=last.get("points"), tries=last.get("tries", 0))


def _time(minutes: float) -> str:
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest:02d}" if hours else f"{rest} min"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    rows = [[translated(text) for text in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(padded(text, width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
