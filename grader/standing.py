"""progress(): how far this reader is, from the notebooks beside this one and the reader's own record. Not a mark."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.judging.html import fill_in
from utils.notebook import record
from utils.notebook.predictions import RIGHT

NOT_A_MARK = "Your own record, kept on this machine: no mark, and nobody else sees it."


@dataclass(frozen=True)
class Listed:
    """An exercise as its notebook has it, and how its last check ended.  earned: None if it was never checked."""

    name: str
    title: str
    minutes: int
    points: float
    challenge: bool
    earned: float | None = None
    tries: int = 0

    @property
    def passed(self) -> bool:
        return self.earned is not None and self.earned >= self.points

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
    def passed(self) -> int:
        return sum(exercise.passed for exercise in self.exercises)

    @property
    def row(self) -> tuple[str, ...]:
        """The texts of a table's row: see HEADINGS."""
        stated = sum(exercise.minutes for exercise in self.exercises)
        earned = sum(exercise.earned or 0 for exercise in self.exercises)
        return (self.name, f"{self.passed} of {len(self.exercises)}",
                f"{earned:g} of {sum(exercise.points for exercise in self.exercises):g}",
                f"{self.right} of {self.guesses}" if self.guesses else "–",
                f"{_time(self.spent_s / 60) if self.spent_s else '–'} of {_time(stated)}")


HEADINGS = ("unit", "exercises passed", "points", "guesses right", "time spent, of that stated")


@dataclass(frozen=True)
class Progress:
    """A table that shows itself.  here: the unit whose notebook is open, if any; faults: what could not be read."""

    units: tuple[Unit, ...]
    here: str = ""
    faults: tuple[str, ...] = ()

    @property
    def unit_here(self) -> Unit | None:
        return next((unit for unit in self.units if unit.name == self.here), None)

    @property
    def next_step(self) -> str:
        """The first exercise that is open, in this unit, else in the first unit that has one; challenges come last."""
        order = sorted(self.units, key=lambda unit: unit.name != self.here)
        for challenges in (False, True):
            for unit in order:
                for exercise in unit.exercises:
                    if not exercise.passed and exercise.challenge == challenges:
                        return f"Next: {exercise.title} ({exercise.name}, {exercise.minutes} minutes), in {unit.name}."
        return "Everything is done. Which of the open problems do you take?" if self.units else ""

    def __repr__(self) -> str:
        if not self.units:
            return "\n".join([*self.faults, "No units are beside this folder: run progress() in a unit's notebook."])
        lines = [*self.faults, *_aligned([HEADINGS, *(unit.row for unit in self.units)])]
        if self.unit_here:
            lines += [f"In {self.here}:", *_aligned([(f"  {e.sign} {e.title}", e.state) for e in self.unit_here.exercises])]
        return "\n".join([*lines, self.next_step, NOT_A_MARK])

    def _repr_html_(self) -> str:
        return fill_in(__file__, progress=self, headings=HEADINGS, not_a_mark=NOT_A_MARK)


def progress(folder: str | Path | None = None) -> Progress:
    """How far you are, and what to do next.  folder: where the units' folders are, if not beside the open notebook's."""
    place = Path.cwd().parent if folder is None else Path(folder)
    try:
        data, fault = record.read(place / record.NAME)
    except OSError as error:
        raise OSError(f"{place / record.NAME} cannot be read: {error}") from None
    faults = (f"{fault}: it is not used, and the next check sets it aside and begins a new one.",) if fault else ()
    units = tuple(_unit(path, data) for path in sorted(place.glob("*/*.ipynb")) if path.stem == path.parent.name)
    return Progress(tuple(unit for unit in units if unit.exercises), Path.cwd().name, faults)


def _unit(path: Path, data: record.Data) -> Unit:
    guesses = [guess["verdict"] for guess in data["guesses"].get(path.stem, {}).values() if guess["verdict"]]
    return Unit(path.stem, tuple(_exercises(path, data["checks"])), len(guesses), guesses.count(RIGHT),
                data["times"].get(path.stem, {}).get("spent_s", 0.0))


def _exercises(path: Path, checks: dict[str, dict]) -> list[Listed]:
    """What the unit's notebook asks for; nothing where it cannot be read."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        contracts = {cell.get("id", ""): "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"}
        graded = [cell["metadata"]["nbgrader"] for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade")]
        return [_listed(facts["grade_id"].removesuffix("_check"), facts["points"], contracts, checks) for facts in graded]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []


def _listed(name: str, points: float, contracts: dict[str, str], checks: dict[str, dict]) -> Listed:
    contract = contracts.get(f"{name}-contract", "")
    title = contract.partition("\n")[0].lstrip("# ").replace("(c)", "").strip()
    minutes = re.search(r"(\d+) min", contract)
    last = checks.get(name, {})
    return Listed(name, title or name, int(minutes[1]) if minutes else 0, points, "(c)" in contract,
                  last.get("points"), last.get("tries", 0))


def _time(minutes: float) -> str:
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest:02d}" if hours else f"{rest} min"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
