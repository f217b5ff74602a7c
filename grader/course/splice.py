"""The student's cells in the instructor's notebook: how it is shown, and in which orders its cells are to be run."""

import builtins
import copy
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from grader.course.cell import exercise_of, in_words, is_check, is_solution, name_of, only_shows, text_of
from grader.course.matching import matched
from grader.course.source import defined_in, definitions_of, is_whole, parsed, used_in, why_not_parsed

MOST_PARTS = 4  # of one cell that was split


@dataclass(frozen=True)
class Step:
    """A cell as it is run. words: how people are told of it. index: of the spliced cell that its outputs belong to, if any.

    hands_over: the exercise whose released check cell it is; that is not run, but what it checks is handed over.
    """

    source: str
    words: str
    index: int | None = None
    hands_over: str = ""


@dataclass
class Spliced:
    """notebook: the released one with the student's cells in it. orders: of what is run, the likeliest first.

    remarks: on what was not where it was expected. written: the exercises that the student wrote something for. n_released:
    how many of her cells are cells of the released notebook. missing: exercises that have no cell at all, and whether
    all that was handed in stands before them.
    """

    notebook: NotebookNode
    orders: list[list[Step]]
    remarks: list[str]
    written: frozenset[str]
    n_released: int
    missing: Mapping[str, bool]


@dataclass(frozen=True)
class _Cell:
    """A submitted cell. number: its place in the file, from 1. of: the released cell that it is, None for one of her own."""

    cell: NotebookNode
    number: int
    of: int | None

    @property
    def source(self) -> str:
        return self.cell.source

    @property
    def words(self) -> str:
        return in_words(self.cell, self.number)


def steps_of(notebook: NotebookNode) -> list[Step]:
    """A notebook's code cells in their order, without those that only show things."""
    return [Step(cell.source, in_words(cell, index + 1), index, exercise_of(cell) if is_check(cell) else "")
            for index, cell in enumerate(notebook.cells) if cell.cell_type == "code" and not only_shows(cell)]


def splice(template: NotebookNode, submitted: NotebookNode) -> Spliced:
    """Put what the student wrote, wherever she wrote it, into the template. Checks, points and all else are the template's.

    The last cell that defines an exercise's function is its solution; drafts, helpers and imports stay before or behind
    it, as her own cells, without metadata and tags. Changed set-up cells run after the released ones. Her markdown is
    shown as it was typed.
    """
    return _Splicing(template, submitted).done()


class _Splicing:
    """The work of `splice`."""

    def __init__(self, template: NotebookNode, submitted: NotebookNode):
        self.template, self.remarks = template, []
        self.cells = self._joined(_numbered(template, submitted))
        self.released_texts = {text_of(cell) for cell in template.cells}
        self.solutions = {name_of(cell): index for index, cell in enumerate(template.cells) if is_solution(cell)}
        self.missing: list[str] = []
        self.finals = {name: final for name in self.solutions if (final := self._final(name)) is not None}
        if self.missing:
            cells = "the cell for it is" if len(self.missing) == 1 else "the cells for them are"
            self.remarks.append(f"nothing in the notebook defines {', '.join(self.missing)}, and {cells} missing")
        self.shown: list[NotebookNode] = []
        self.steps: list[Step] = []
        self.step_of: dict[int, Step] = {}  # by the number of the student's cell

    def done(self) -> Spliced:
        groups = self._groups()
        for cell in groups.pop(None, []):
            self._own(cell)
        for index, cell in enumerate(self.template.cells):
            self._group(index, cell, groups.get(index, []))
        result = copy.deepcopy(self.template)
        result.cells = self.shown
        orders = [self.steps] if self._in_order() else [self.steps, self._as_submitted()]
        places = [cell.of for cell in self.cells if cell.of is not None]
        missing = {name: self.solutions[name] > max(places, default=-1) for name in self.missing}
        return Spliced(result, orders, self.remarks, frozenset(self.finals), len(places), missing)

    # ── which cells are solutions ──

    def _joined(self, cells: list[_Cell]) -> list[_Cell]:
        """With the parts of a cell that was split put together: one alone is not Python, together they are."""
        result: list[_Cell] = []
        while cells:
            parts = next((parts for n in range(2, MOST_PARTS + 1) if (parts := self._one_cell(cells[:n], n))), None)
            if parts is None:
                result.append(cells.pop(0))
                continue
            whole, n = parts
            self.remarks.append(f"{cells[0].words} and the {'cell' if n == 2 else f'{n - 1} cells'} after it are one "
                                "that was split: they were run as one")
            result.append(whole)
            del cells[:n]
        return result

    def _one_cell(self, parts: Sequence[_Cell], n: int) -> tuple[_Cell, int] | None:
        """(the whole cell, of how many parts), if these parts are one."""
        if len(parts) < n or not all(self._is_hers(part) for part in parts):
            return None
        if all(is_whole(part.source) for part in parts):
            return None
        for between in ("\n", ""):
            source = between.join(part.source for part in parts)
            if parsed(source):
                cell = copy.deepcopy(parts[0].cell)
                cell.source = source
                of = next((part.of for part in parts if part.of is not None), None)
                return _Cell(cell, parts[0].number, of), n
        return None

    def _is_hers(self, cell: _Cell) -> bool:
        return cell.cell.cell_type == "code" and (cell.of is None or is_solution(self.template.cells[cell.of]))

    def _final(self, name: str) -> _Cell | None:
        """The cell that counts as the solution of an exercise; None where none was written."""
        index = self.solutions[name]
        own = [cell for cell in self.cells if cell.of == index and text_of(cell.cell) not in ("", *self.released_texts)]
        defining = [cell for cell in self.cells if self._can_run(cell, name) and name in defined_in(cell.source)]
        defining = [cell for cell in defining if not self._only_shows(cell)] or defining
        final = next(reversed(defining or own), None)
        there = any(cell.of == index for cell in self.cells)
        if final is None:
            self.missing += [] if there else [name]
            return None
        if parsed(final.source) is None and not final.source.lstrip().startswith("%%"):
            why = why_not_parsed(final.source)
            self.remarks.append(f"{final.words}, the solution of {name}, cannot be read as Python{why}")
        if len(defining) > 1:
            listed = ", ".join(cell.words for cell in defining[:-1])
            self.remarks.append(f"the solution {name} is defined in {listed} and in {final.words}: the last one counts, "
                                "unless another one earns more")
        elif final.of != index:
            self.remarks.append(f"the cell of {name} is {'not written in' if there else 'missing'}: {final.words}, which "
                                "defines it, counts")
        if final.cell.cell_type != "code":
            self.remarks.append(f"{final.words} is a {final.cell.cell_type} cell: it was run as code")
        return final

    def _can_run(self, cell: _Cell, name: str) -> bool:
        """Whether a cell may be the solution: code that was not released, or what stands in the solution's place."""
        if text_of(cell.cell) in self.released_texts:
            return False
        return cell.cell.cell_type == "code" or cell.of in self.solutions.values()

    def _only_shows(self, cell: _Cell) -> bool:
        return cell.of is not None and only_shows(self.template.cells[cell.of])

    # ── the order of the released notebook ──

    def _groups(self) -> dict[int | None, list[_Cell]]:
        """The student's cells by the released cell that they are, or follow; None: they come first."""
        groups: dict[int | None, list[_Cell]] = defaultdict(list)
        anchor = None
        for cell in self.cells:
            anchor = anchor if cell.of is None else cell.of
            groups[anchor].append(cell)
        return groups

    def _group(self, index: int, released: NotebookNode, group: list[_Cell]) -> None:
        """A released cell, with the student's cells that stand in its place or follow it."""
        if is_solution(released):
            self._solution(index, released, group)
            return
        changed = [cell for cell in group if cell.of == index and text_of(cell.cell) != text_of(released)]
        before = changed if is_check(released) else []
        after = [cell for cell in group if cell.of is None or (cell in changed and self._is_set_up(index))]
        for cell in before:
            self.remarks.append(f"{cell.words} is no longer the check of {exercise_of(released)} as it was released: the "
                                "released one counts, and this one was run as a cell of the student's own")
            self._own(cell)
        self._show(released)
        if only_shows(released):
            for cell in [one.cell for one in changed] or [released]:
                self._needed(cell)
        elif is_check(released):
            self._run(hands_over=exercise_of(released))
        elif released.cell_type == "code":
            self._run()
        for cell in after:
            self._own(cell)

    def _solution(self, index: int, released: NotebookNode, group: list[_Cell]) -> None:
        """The cell that counts, if it is in the group; else the released one, which is run only if nothing was written."""
        final = self.finals.get(name_of(released))
        place = final if final in group else next((cell for cell in group if cell.of == index), None)
        for cell in group if place else [None, *group]:
            if cell is place:
                self._show(released, final.source if final else None)
                if final is None:
                    self._run()
            if cell and cell is final:
                self._run(cell)
            elif cell and text_of(cell.cell) not in self.released_texts:
                self._own(cell)

    def _is_set_up(self, index: int) -> bool:
        cell = self.template.cells[index]
        return cell.cell_type == "code" and not only_shows(cell) and not is_check(cell)

    def _own(self, cell: _Cell) -> None:
        """A cell of the student's own, at the end of what is shown so far."""
        if cell.cell.cell_type == "code":
            self.shown.append(new_code_cell(cell.source))
            self._run(cell)
        elif cell.cell.cell_type == "markdown":
            self.shown.append(new_markdown_cell(as_typed(cell.source)))

    def _needed(self, cell: NotebookNode) -> None:
        """Of a cell that only shows things what the student's own code uses, and nothing else defines; and a solution."""
        definitions = definitions_of(cell.source)
        solutions = {name for name, final in self.finals.items() if final.cell is cell}
        if defined_in(definitions) & (self._used | solutions):
            self.shown.append(new_code_cell(definitions))
            self._run()

    @cached_property
    def _used(self) -> frozenset[str]:
        """Names that her code uses and that no cell defines that is run."""
        hers = [cell.source for cell in self.cells if self._is_hers(cell)]
        released = [cell.source for cell in self.template.cells if cell.cell_type == "code" and not only_shows(cell)]
        known = frozenset(vars(builtins)).union(*map(defined_in, [*hers, *released]))
        return frozenset().union(*map(used_in, hers)) - known

    def _show(self, released: NotebookNode, source: str | None = None) -> None:
        cell = copy.deepcopy(released)
        if source is not None:
            cell.source = source
        self.shown.append(cell)

    def _run(self, cell: _Cell | None = None, hands_over: str = "") -> None:
        """What was shown last; it is this cell of the student's, or none."""
        last = self.shown[-1]
        words = cell.words if cell else in_words(last, len(self.shown))
        self.steps.append(Step(last.source, words, len(self.shown) - 1, hands_over))
        if cell:
            self.step_of[cell.number] = self.steps[-1]

    # ── her own order ──

    def _in_order(self) -> bool:
        places = [cell.of for cell in self.cells
                  if cell.of is not None and cell.cell.cell_type == "code" and not self._only_shows(cell)]
        return places == sorted(places)

    def _as_submitted(self) -> list[Step]:
        """Her cells from top to bottom, after the released set-up cells."""
        hand_overs = {step.hands_over: step for step in self.steps if step.hands_over}
        steps = [Step(cell.source, in_words(cell, index + 1)) for index, cell in enumerate(self.template.cells)
                 if self._is_set_up(index) and not is_solution(cell)]
        for cell in self.cells:
            if cell.number in self.step_of:
                steps.append(self.step_of[cell.number])
            elif cell.of is not None and is_check(self.template.cells[cell.of]):
                steps.append(hand_overs[exercise_of(self.template.cells[cell.of])])
        return steps


def _numbered(template: NotebookNode, submitted: NotebookNode) -> list[_Cell]:
    cells = copy.deepcopy(submitted.cells)
    for cell in cells:
        cell.source = cell.source.replace("\r\n", "\n").replace("\r", "\n")
    return [_Cell(cell, number, of) for number, (cell, of) in enumerate(
        zip(cells, matched(template.cells, cells), strict=True), 1)]


def as_typed(text: str) -> str:
    """Markdown that shows a text as it was typed: nothing in it is a tag, a link or mathematics, for a browser to act on."""
    return f"<pre>{''.join(map(harmless, text))}</pre>"


def harmless(letter: str) -> str:
    """Not punctuation, to markdown or to HTML; an empty line would end the block."""
    return letter if letter.isalnum() or letter == " " else f"&#{ord(letter)};"
