"""Make the students' notebooks from the solutions, with nbgrader's own generate_assignment (`make notebooks`)."""

import contextlib
import difflib
import logging
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.apps import NbGrader
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearSolutions
from nbgrader.utils import capture_log, compute_checksum

from grader.broken import broken_program, is_broken
from grader.contracts import contracts_of
from grader.course.cell import grade_id, in_words
from grader.course.course_file import NAME
from grader.hunt import EMPTY_CELL, has_faults

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
ALIKE = 0.8  # of its letters: a line that is like a mark is meant to be one
AN_ERROR = re.compile(r"[\w.]*(?:Error|Exception|Entry): .*")
HEARD = logging.getLogger("nbgrader.release")  # what nbgrader says here is told only where it fails
HEARD.setLevel(logging.ERROR)
HEARD.propagate = False


class ClearOrBreak(ClearSolutions):
    """nbgrader's step that takes solutions out; of a program with a bug (see broken) students get the broken one instead,
    and for the blind hunt's (see grader.hunt) a place for the one that they draw."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """An exercise's cells are tagged with the path that its contract names."""
        path_of = {contract.name: contract.path for contract in contracts_of(nb.cells)}
        for cell in nb.cells:
            if (path := path_of.get(grade_id(cell).removesuffix("_check"))) is not None:
                cell.metadata.tags = [path]
        return super().preprocess(nb, resources)

    def _replace_solution_region(self, cell: NotebookNode, language: str) -> bool:
        if cell.cell_type == "code" and has_faults(cell.source):
            cell.source = EMPTY_CELL
        elif cell.cell_type == "code" and is_broken(cell.source):
            cell.source = broken_program(cell.source)
        else:
            return super()._replace_solution_region(cell, language)
        return True


def worked_in(content: bytes) -> list[str]:
    """The cells of a released notebook that somebody changed or ran since, in words: none, if it is as it was released.

    Raises: ValueError for what is no notebook.
    """
    cells = nbformat.reads(content.decode(), as_version=4).cells
    return [in_words(cell, number) for number, cell in enumerate(cells, 1)
            if cell.get("outputs") or cell.get("execution_count")
            or ("nbgrader" in cell.metadata and compute_checksum(cell) != cell.metadata.nbgrader.get("checksum"))]


class CannotRelease(ValueError):
    """No notebook was released, and those of the last time are as they were."""


def release(root: Path, units: Sequence[str], released: str) -> None:
    """Have nbgrader make the students' notebooks in `released`, of all these units or of none.  Raises: CannotRelease."""
    with tempfile.TemporaryDirectory(dir=root, prefix=".release-") as made:
        for unit in units:
            said = _generate(root, unit, made)
            if said:
                why = AN_ERROR.findall(said)
                raise CannotRelease(f"nbgrader could not release {unit}: {why[-1] if why else said}")
        for unit in units:
            place = root / released / unit
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(place, ignore_errors=True)
            shutil.move(Path(made) / unit, place)


def _generate(root: Path, unit: str, released: str) -> str:
    """`nbgrader generate_assignment`, without a program of its own; what it says where it cannot."""
    with contextlib.chdir(root):
        app = NbGrader()
        app.load_config_file()
        app.config.CourseDirectory.assignment_id = unit
        app.config.CourseDirectory.release_directory = released
        converter = GenerateAssignment(coursedir=CourseDirectory(config=app.config), config=app.config, log=HEARD)
        converter.force = converter.create_assignment = True
        done = capture_log(converter)
    return "" if done["success"] else f"{done['error']}\n{done.get('log', '')}"


def refuse_wrong_marks(file: Path, notebook: NotebookNode) -> None:
    """Raises: CannotRelease, where it is not clear what of a cell is its solution."""
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "code" and (wrong := wrong_mark(cell.source)):
            raise CannotRelease(f"{file}, {in_words(cell, number)}: {wrong}")


def wrong_mark(source: str) -> str:
    """What is wrong with the marks around a cell's solution, in words; "" if nothing is."""
    begun = 0
    for number, line in enumerate(source.split("\n"), 1):
        text = line.strip()
        if BEGIN in line:
            if begun:
                return f"its line {number} is a second {BEGIN} before an {END}"
            begun = number
        elif END in line:
            if not begun:
                return f"its line {number} is an {END} without a {BEGIN} above it"
            begun = 0
        elif text.startswith("#") and (meant := difflib.get_close_matches(text, (BEGIN, END), 1, ALIKE)):
            return f"its line {number} reads {text!r}, and {meant[0]!r} was expected"
    return f"the {BEGIN} in its line {begun} has no {END}" if begun else ""


def main() -> None:
    """The student version of the units that are named, or of every one; with a course.toml, of what that assigns.

    Raises: SystemExit, with nbgrader's own words.
    """
    if (ROOT / NAME).is_file():
        sys.exit(subprocess.run([sys.executable, "-m", "grader", "assign"], cwd=ROOT).returncode)
    from grader.course.counts import bring_up_to_date  # it needs all exercises, and with them torch

    units = [path.stem for path in sorted((ROOT / "solutions").glob("*/*.ipynb")) if path.stem == path.parent.name]
    if unknown := set(sys.argv[1:]) - set(units):
        sys.exit(f"there is no unit {', '.join(unknown)}; expected some of {', '.join(units)}, or none for all")
    try:
        for unit in sys.argv[1:] or units:
            for change in bring_up_to_date(unit):
                print(f"solutions/{unit}: now {change}")
            file = Path("solutions", unit, f"{unit}.ipynb")
            refuse_wrong_marks(file, nbformat.read(ROOT / file, as_version=4))
            release(ROOT, [unit], "notebooks")
            print(f"notebooks/{unit}")
    except CannotRelease as error:
        sys.exit(f"Stopped: {error}")


if __name__ == "__main__":
    main()
