"""What a cell of a notebook is: a solution, a check, one that only shows things; and how people are told which is meant."""

from nbformat import NotebookNode

from utils.languages.choice import ENGLISH, languages

LANGUAGE = "course_language"  # in a notebook's metadata, where it is not English
LONGEST_LINE = 60  # of a cell's source, where it is quoted


def language_of(notebook: NotebookNode) -> str:
    """That in which a released notebook's verdicts are given."""
    asked = notebook.metadata.get(LANGUAGE, ENGLISH)
    return asked if asked in languages() else ENGLISH


def nbgrader_of(cell: NotebookNode) -> dict:
    """nbgrader's metadata; a student can have put anything there."""
    metadata = cell.metadata.get("nbgrader", {})
    return metadata if isinstance(metadata, dict) else {}


def is_solution(cell: NotebookNode) -> bool:
    return bool(nbgrader_of(cell).get("solution", False))


def is_check(cell: NotebookNode) -> bool:
    return bool(nbgrader_of(cell).get("grade", False))


def only_shows(cell: NotebookNode) -> bool:
    """Whether it is not run when a notebook is marked."""
    tags = cell.metadata.get("tags", [])
    return isinstance(tags, list) and "watch" in tags


def grade_id(cell: NotebookNode) -> str:
    return str(nbgrader_of(cell).get("grade_id") or "")


def name_of(cell: NotebookNode) -> str:
    """The grade_id, or the cell id where there is none."""
    return grade_id(cell) or str(cell.get("id", ""))


def exercise_of(cell: NotebookNode) -> str:
    """The exercise that a check cell is about."""
    return name_of(cell).removesuffix("_check")


def text_of(cell: NotebookNode) -> str:
    """The source without what programs change when they save it: ends of lines, blanks at these, empty lines around it."""
    return "\n".join(line.rstrip() for line in cell.source.split("\n")).strip()


def in_words(cell: NotebookNode, number: int) -> str:
    """How people are told of a cell: 'cell 12 (“def reduce(x, root, group):”)'. number: its place in the file, from 1."""
    first = next((line.strip() for line in cell.source.split("\n") if line.strip()), "")
    quoted = first if len(first) <= LONGEST_LINE else first[:LONGEST_LINE - 1] + "…"
    return f"cell {number} (“{quoted}”)" if quoted else f"cell {number}, which is empty,"
