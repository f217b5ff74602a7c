"""Numbers that a unit's first cell, its checks and the README repeat, written from where they are decided.

An exercise's points are decided in its exercise.py, its minutes and its path in its contract; reading is counted.
`make notebooks` begins with this.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.contracts import CorePath, core_path
from grader.course.cell import grade_id, is_check
from grader.exercises import EXERCISES

ROOT = Path(__file__).resolve().parents[2]
ASKS = re.compile(r"(?<=\*\*Core path\*\* \(★\): )[^.]+(?=\.)")


def asks(path: CorePath) -> str:
    """What the core path asks of a reader, as a unit's first cell says it."""
    if not path.exercises:
        return f"{path.reading} minutes of reading"
    exercises = f"{path.exercises} exercise{'' if path.exercises == 1 else 's'}"
    return f"{exercises}, {path.writing} minutes of writing and {path.reading} of reading"


def in_short(path: CorePath) -> str:
    """The same, as the README's table says it."""
    return f"{f'{path.exercises} ★' if path.exercises else 'read'}, {path.minutes} min"


def counted(cells: list[NotebookNode]) -> Iterator[str]:
    """Put right what a solution's cells say; what was changed, in words."""
    for cell in filter(is_check, cells):
        name = grade_id(cell).removesuffix("_check")
        if name in EXERCISES and cell.metadata.nbgrader.points != (points := EXERCISES[name].max_points):
            cell.metadata.nbgrader.points = points
            yield f"{name}: {points:g} points"
    said = ASKS.sub(asks(core_path(cells)), cells[0].source)
    if said != cells[0].source:
        cells[0].source = said
        yield asks(core_path(cells))


def bring_up_to_date(unit: str, root: Path = ROOT) -> list[str]:
    """Of one unit: its solutions and its row in the README, where they say something else; what was changed."""
    file, readme = root / "solutions" / unit / f"{unit}.ipynb", root / "README.md"
    notebook = nbformat.read(file, as_version=4)
    changed = list(counted(notebook.cells))
    if changed:
        nbformat.write(notebook, file)
    before = readme.read_text(encoding="utf-8")
    row = re.compile(rf"(?<=\(notebooks/{unit}/{unit}\.ipynb\) \|)(.*\| )[^|]+ min(?= \|)")
    after = row.sub(lambda found: found[1] + in_short(core_path(notebook.cells)), before)
    if after != before:
        readme.write_text(after, encoding="utf-8")
        changed.append(f"README.md: {in_short(core_path(notebook.cells))}")
    return changed
