"""A unit's solutions as course.toml assigns them: what is not assigned comes solved and unmarked, or not at all."""

import copy
import datetime
import re
from collections.abc import Iterator, Sequence

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from grader.broken import MARK as BROKEN
from grader.contracts import Contract, contracts_of
from grader.course.cell import LANGUAGE, is_check, is_solution, name_of, nbgrader_of
from grader.course.course_file import LEFT_OUT, Assigned, BadCourseFile, CourseFile, LateRule
from grader.course.source import defined_in, used_in
from grader.hunt import program_with
from utils.languages.choice import ENGLISH

MARKS_OF_A_SOLUTION = re.compile(r"^ *### (BEGIN|END) SOLUTION\n?", re.M)
FACTS = re.compile(r"^(★ core|further|challenge \(c\))(?= · )", re.M)
# Of a unit's first cell: a sentence that counts; what the core path asks for, with the list below it, and other readers.
COUNTED = re.compile(r"[^.\n]*\b\d+ (?:exercises?|challenges?)\b[^.\n]*\. *")
CORE_PATH = re.compile(r"\*\*Core path\*\* \(★\).*?(?=\(?(?:In )?Stanford CS336|\n\n(?!- )|\Z)"
                       r"|\*\*Your hours\.\*\*[^\n]*|^\| if you want \|.*?(?=\n\n)|Reading and running the cells[^.]*\. ",
                       re.S | re.M)
PREDICTED = re.compile(r"predict\.(number|choice|compare)\(\s*\"([\w-]+)\"")


def assigned(solutions: NotebookNode, unit: Assigned, course: CourseFile) -> NotebookNode:
    """The instructor's version of what students get.

    Raises: BadCourseFile where something that is assigned needs what is left out.
    """
    notebook = copy.deepcopy(solutions)
    contracts = contracts_of(notebook.cells)
    others = {contract.name for contract in contracts} - set(unit.exercises)
    shaped = _without(notebook.cells, others, unit) if unit.others == LEFT_OUT else _given(notebook.cells, others)
    notebook.cells = list(shaped)
    for cell in filter(is_check, notebook.cells):
        name = name_of(cell).removesuffix("_check")
        cell.metadata.nbgrader.points = course.points(name, unit.unit, nbgrader_of(cell)["points"])
    first = notebook.cells[0]
    first.source = re.sub(r"\n{3,}", "\n\n", COUNTED.sub("", CORE_PATH.sub("", first.source))).rstrip() + "\n"
    own = new_markdown_cell(in_words(unit, course, contracts), id="assigned", metadata=first.metadata)
    notebook.cells.insert(1, own)
    if course.language != ENGLISH:
        notebook.metadata[LANGUAGE] = course.language
    return notebook


def in_words(unit: Assigned, course: CourseFile, contracts: Sequence[Contract]) -> str:
    """What a unit asks for, for its students."""
    asked = [contract for contract in contracts if contract.name in unit.exercises]
    rows = "\n".join(f"| {one.title} | {one.minutes} | {_points(course, unit, one)} |" for one in asked)
    minutes = sum(contract.minutes for contract in asked)
    due = f" Hand in by {local(unit.due, course)}.{late_in_words(course.late)}" if unit.due else ""
    rest = "left out" if unit.others == LEFT_OUT else "solved, and not marked"
    left = len(contracts) - len(asked)
    others = f"\n\nThe unit's other {_exercises(left)} {'is' if left == 1 else 'are'} {rest}." if left else ""
    where = course.title or "this course"
    if not asked:
        return f"**In {where}, this unit is not marked.** Its exercises are {rest.removesuffix(', and not marked')}."
    return (f"**Assigned in {where}:** {_exercises(len(asked))}, about {minutes} minutes of writing.{due}\n\n"
            f"| exercise | minutes | points |\n|---|---|---|\n{rows}{others}")


def late_in_words(rule: LateRule) -> str:
    """What being late costs, for students; "" where it costs nothing."""
    costs = f" Being late costs {rule.percent_a_day:g} % of your points for each day that has begun."
    most = f" A notebook that comes more than {rule.most_days:g} days late has no points."
    return (costs if rule.percent_a_day else "") + (most if rule.most_days != float("inf") else "")


def local(when: datetime.datetime, course: CourseFile) -> str:
    """A time (in UTC) as the course's own clocks show it."""
    return f"{when.replace(tzinfo=datetime.UTC).astimezone(course.zone):%d %B %Y, %H:%M} ({course.zone})"


def _exercises(number: int) -> str:
    return f"{number} exercise{'' if number == 1 else 's'}"


def _points(course: CourseFile, unit: Assigned, one: Contract) -> str:
    return "withdrawn" if one.name in course.withdrawn else f"{course.points(one.name, unit.unit, one.points):g}"


def _given(cells: Sequence[NotebookNode], names: set[str]) -> Iterator[NotebookNode]:
    """With these exercises solved: what they define is there, and nobody marks it."""
    for cell in cells:
        name = name_of(cell)
        if is_check(cell) and name.removesuffix("_check") in names:
            continue
        if is_solution(cell) and name in names:
            cell.source = right_program(cell.source)
            del cell.metadata["nbgrader"]
        elif cell.cell_type == "markdown" and cell.id.removesuffix("-contract") in names:
            cell.source = FACTS.sub("given, not marked", cell.source)
        yield cell


def right_program(source: str) -> str:
    """A solution cell without the marks of its solution, and without the lines that would break it."""
    lines = program_with(source, ()).split("\n")
    return MARKS_OF_A_SOLUTION.sub("", "\n".join(line for line in lines if not line.strip().startswith(BROKEN)))


def _without(cells: Sequence[NotebookNode], names: set[str], unit: Assigned) -> list[NotebookNode]:
    """Without these exercises, and without the cells that only show what they do.

    Raises: BadCourseFile where an exercise that is assigned uses one of them.
    """
    own = {f"{name}{part}" for name in names for part in ("", "-contract", "-guess", "-watch", "-check", "-answer", "-read")}
    kept = [cell for cell in cells if cell.id not in own]
    every = _names_set(cells)
    while gone := _in_the_air(kept, every - _names_set(kept)):
        needed = next((cell for cell in gone if is_solution(cell)), None)
        if needed:
            lost = {*_names_used(needed)} & (every - _names_set(kept))
            missing = sorted(lost & names) or sorted(lost)
            raise BadCourseFile(f"{name_of(needed)} of {unit.unit} uses {', '.join(missing)}, which would be left out: "
                                "assign it too, or let the others come solved (others = \"solved\")")
        kept = [cell for cell in kept if cell not in gone]
    return kept


def _in_the_air(kept: Sequence[NotebookNode], lost: set[str]) -> list[NotebookNode]:
    """Cells that use a name, or compare a prediction, that only cells set which are not kept."""
    return [cell for cell in kept if cell.cell_type == "code" and not is_check(cell) and {*_names_used(cell)} & lost]


def _names_set(cells: Sequence[NotebookNode]) -> set[str]:
    """Names, and predictions that are asked for."""
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    asked = {f'"{name}"' for source in code for kind, name in PREDICTED.findall(source) if kind != "compare"}
    return asked | {name for source in code for name in defined_in(source)}


def _names_used(cell: NotebookNode) -> Iterator[str]:
    yield from used_in(cell.source)
    yield from (f'"{name}"' for kind, name in PREDICTED.findall(cell.source) if kind == "compare")


def graded(notebook: NotebookNode) -> dict[str, float]:
    """The exercises that are marked, with their points."""
    return {name_of(cell).removesuffix("_check"): float(nbgrader_of(cell).get("points", 0))
            for cell in notebook.cells if is_check(cell)}
