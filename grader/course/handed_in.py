"""What was handed in: which of several notebooks have work in them, and whether it is this unit's."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from grader.course import reading
from grader.course.cell import grade_id
from grader.course.source import defined_in
from grader.course.splice import Spliced, splice

ENDS_BEFORE = "Nothing to judge: the file ends before the end of this exercise."
DAMAGED_THERE = "Nothing to judge: the file is damaged where this exercise stood."
MOST_NOTEBOOKS = 3  # of one submission that are marked


@dataclass(frozen=True)
class HandedIn:
    """One notebook of a submission. name: of its file, "" for the one that was looked for; called: what the student called
    that. wrong: with its file, in words.

    nothing_of_the_unit: in words, why there is nothing in it that could be marked; "" if there is.
    """

    name: str
    notebook: NotebookNode
    spliced: Spliced
    wrong: tuple[str, ...] = ()
    nothing_of_the_unit: str = ""
    called: str = ""

    @property
    def words(self) -> str:
        file = self.name or self.called
        return f"“{file}”" if file else "the notebook that was looked for"

    @property
    def lost(self) -> dict[str, str]:
        """Exercises that a torn file has lost, each with what its student reads."""
        is_torn = any(text.startswith(reading.TORN) for text in self.wrong)
        return {name: ENDS_BEFORE if is_behind else DAMAGED_THERE
                for name, is_behind in self.spliced.missing.items() if is_torn}


def read_all(submitted: bytes, others: Sequence[tuple[str, bytes]], release: NotebookNode,
             units: Mapping[str, str], called: str = "") -> list[HandedIn]:
    """The notebook that was looked for, then the others. units: exercise -> its unit. called: the first one's file."""
    read = []
    for name, content in (("", submitted), *others):
        notebook, wrong = reading.read(content)
        spliced = splice(release, notebook)
        wrong_unit, something = _wrong_unit(notebook, spliced, release, units)
        if wrong_unit and (notebook.cells or not wrong):
            wrong.append(wrong_unit)
        read.append(HandedIn(name, notebook, spliced, tuple(wrong), "" if something else wrong[-1],
                             "" if name else called))
    return read


def to_be_marked(handed_in: Sequence[HandedIn]) -> list[HandedIn]:
    """Those with work in them, each only once; if there is work in none, the first of this unit, or the first."""
    found: dict[tuple[str, ...], HandedIn] = {}
    for one in handed_in:
        if one.spliced.written:
            found.setdefault(tuple(step.source for step in one.spliced.orders[0]), one)
    without_work = sorted(handed_in, key=lambda one: bool(one.nothing_of_the_unit))
    return list(found.values())[:MOST_NOTEBOOKS] or without_work[:1]


def about_others(handed_in: Sequence[HandedIn], chosen: HandedIn, points: Mapping[str, float]) -> list[str]:
    """What a student with several notebooks should know, in one sentence. points: of those that were marked, by name."""
    if len(handed_in) == 1:
        return []
    others = ", ".join(f"not {one.words} ({_why_not(one, points)})" for one in handed_in if one is not chosen)
    return [f"{len(handed_in)} notebooks were handed in, and {chosen.words} counts, {others}"]


def _why_not(one: HandedIn, points: Mapping[str, float]) -> str:
    if one.name in points:
        return f"it earns {points[one.name]:g} points"
    if one.nothing_of_the_unit:
        return one.nothing_of_the_unit
    return "it was not needed for all the points" if one.spliced.written else "nothing is written in it"


def _names_of(notebook: NotebookNode) -> set[str]:
    """Exercises whose cells a notebook has, or whose functions it defines; other functions, too."""
    return {name for cell in notebook.cells for name in (grade_id(cell).removesuffix("_check"), *defined_in(cell.source))}


def _wrong_unit(notebook: NotebookNode, spliced: Spliced, release: NotebookNode,
                units: Mapping[str, str]) -> tuple[str, bool]:
    """(in words, what is wrong with the notebook's unit, or "", and whether there is something of this unit in it)."""
    if not notebook.cells:
        return "the notebook has no cells", False
    here, found = _units_of(release, units), Counter(units[name] for name in _names_of(notebook) if name in units)
    something = bool(here & found.keys() or (spliced.n_released and not found))
    if other := another_unit(notebook, release, units):
        return f"this is the notebook of {other}, not of {' or '.join(sorted(here)) or 'this unit'}", something
    return "" if something else f"none of the notebook's {len(notebook.cells)} cells belongs to this unit", something


def _units_of(release: NotebookNode, units: Mapping[str, str]) -> set[str]:
    return {units[name] for cell in release.cells if (name := grade_id(cell)) in units}


def another_unit(notebook: NotebookNode, release: NotebookNode, units: Mapping[str, str]) -> str:
    """The unit whose notebook this is, if it has more exercises of that than of the release; else "". units: as read_all."""
    here, names = _units_of(release, units), _names_of(notebook)
    others = Counter(units[name] for name in names - _names_of(release) if name in units and units[name] not in here)
    other, n_others = others.most_common(1)[0] if others else ("", 0)
    return other if n_others > sum(units.get(name) in here for name in names) else ""
