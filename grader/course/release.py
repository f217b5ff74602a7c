"""Make the students' notebooks from the solutions, with nbgrader's own generate_assignment (`make notebooks`)."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions
from nbgrader.utils import compute_checksum

from grader.contracts import contracts_of
from grader.course.cell import grade_id, in_words
from grader.course.counts import bring_up_to_date
from grader.course.course_file import NAME
from grader.exercises.broken import broken_program, is_broken
from grader.hunt import EMPTY_CELL, has_faults

ROOT = Path(__file__).resolve().parents[2]


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


def main() -> None:
    """The student version of the units that are named, or of every one; with a course.toml, of what that assigns.

    Raises: SystemExit, with nbgrader's own words.
    """
    if (ROOT / NAME).is_file():
        sys.exit(subprocess.run([sys.executable, "-m", "grader", "assign"], cwd=ROOT).returncode)
    units = [path.stem for path in sorted((ROOT / "solutions").glob("*/*.ipynb")) if path.stem == path.parent.name]
    if unknown := set(sys.argv[1:]) - set(units):
        sys.exit(f"there is no unit {', '.join(unknown)}; expected some of {', '.join(units)}, or none for all")
    for unit in sys.argv[1:] or units:
        for change in bring_up_to_date(unit):
            print(f"solutions/{unit}: now {change}")
        command = [sys.executable, "-m", "nbgrader", "generate_assignment", unit, "--force", "--create"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"nbgrader could not release {unit}:\n{done.stderr}")
        print(f"notebooks/{unit}")


if __name__ == "__main__":
    main()
