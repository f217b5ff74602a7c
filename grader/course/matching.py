"""Which cell of a submission is which cell of the released notebook, whatever program saved it."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from nbformat import NotebookNode

from grader.course.cell import grade_id, is_solution, only_shows, text_of
from grader.course.source import defined_in

SOMETHING = 0.2
ALIKE = 0.6  # of the lines of two cells: then the one is the other, edited
COPY = 0.8  # then it is a copy of the other
MOST_COMPARED = 20_000


def matched(template: Sequence[NotebookNode], submitted: Sequence[NotebookNode]) -> list[int | None]:
    """For each submitted cell the released one that it is, as its index in the template; None for a cell of the student's.

    Found by grade_id or cell id (one that stands once); where programs have dropped or repeated these, by the source; then,
    for solution cells, by the function; at last by place and likeness: between two cells that were found, in their order.
    """
    found = _by_source_and_name(template, submitted)
    _by_function(template, submitted, found)
    _by_likeness(template, submitted, found)
    _copies_of_what_shows(template, submitted, found)
    return found


def _by_source_and_name(template: Sequence[NotebookNode], submitted: Sequence[NotebookNode]) -> list[int | None]:
    """A name is not believed of a cell whose text is another released cell's: somebody pasted it there."""
    by_grade_id = {name: index for index, cell in enumerate(template) if (name := grade_id(cell))}
    by_id = {str(cell.id): index for index, cell in enumerate(template) if cell.get("id")}
    by_text: dict[str, list[int]] = defaultdict(list)
    for index, cell in enumerate(template):
        by_text[text_of(cell)].append(index)
    seen = Counter(str(cell.get("id", "")) for cell in submitted)
    found: list[int | None] = []
    taken: set[int] = set()
    last = -1
    for cell in submitted:
        id = str(cell.get("id", ""))
        named = by_grade_id.get(grade_id(cell), by_id.get(id) if seen[id] == 1 else None)
        same = by_text.get(text_of(cell), []) if text_of(cell) else []
        if not same or named in same:
            index = named
        else:
            free = [index for index in same if index not in taken] or same
            index = next((index for index in free if index > last), free[0])
        found.append(index)
        if index is not None:
            taken.add(index)
            last = index
    return found


def _by_function(template: Sequence[NotebookNode], submitted: Sequence[NotebookNode], found: list[int | None]) -> None:
    """Solution cells that were not found: every cell that defines the function, and is no released cell, is one."""
    missing = {grade_id(cell): index for index, cell in enumerate(template) if is_solution(cell) and index not in found}
    for number, cell in enumerate(submitted):
        if missing and found[number] is None:  # whatever its type: a solution may have become markdown
            names = missing.keys() & defined_in(cell.source)
            if names:
                found[number] = min(missing[name] for name in names)


def _by_likeness(template: Sequence[NotebookNode], submitted: Sequence[NotebookNode], found: list[int | None]) -> None:
    """Released cells that were not found, among the cells between their neighbours."""
    place = {index: number for number, index in reversed(list(enumerate(found))) if index is not None}
    left = MOST_COMPARED
    for index, cell in enumerate(template):
        if index in place or is_solution(cell):
            continue
        begin = 1 + max((place[other] for other in place if other < index), default=-1)
        end = min((place[other] for other in place if other > index and place[other] >= begin), default=len(submitted))
        free = [number for number in range(begin, end)
                if found[number] is None and submitted[number].cell_type == cell.cell_type][:left]
        left -= len(free)
        least = SOMETHING if len(free) == 1 else ALIKE  # where there is only one that it could be
        number = next((number for number in free if likeness(cell.source, submitted[number].source) >= least), None)
        if number is not None:
            found[number], place[index] = index, number


def _copies_of_what_shows(template: Sequence[NotebookNode], submitted: Sequence[NotebookNode],
                          found: list[int | None]) -> None:
    """Cells that only show things are often copied and played with; a copy shows things, too."""
    shows = [(index, cell.source) for index, cell in enumerate(template) if only_shows(cell)]
    hers = [number for number, index in enumerate(found) if index is None and submitted[number].cell_type == "code"]
    for number in hers[:MOST_COMPARED // (len(shows) + 1)]:
        found[number] = next((index for index, source in shows if likeness(source, submitted[number].source) >= COPY), None)


def likeness(one: str, other: str) -> float:
    """The share of lines that two texts have in common, from 0 to 1."""
    a, b = (Counter(line.strip() for line in text.split("\n") if line.strip()) for text in (one, other))
    return 2 * (a & b).total() / max(1, a.total() + b.total())
