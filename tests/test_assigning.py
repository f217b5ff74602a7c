"""A unit as a course file assigns it: whatever is chosen, each cell finds the names that it uses, and points agree."""

import random
from collections.abc import Iterator

import nbformat
import pytest

from grader.contracts import contracts_of
from grader.course.assigning import assigned, graded
from grader.course.cell import is_solution, name_of
from grader.course.course_file import LEFT_OUT, OTHERS, Assigned, BadCourseFile, CourseFile
from grader.course.source import defined_in, used_in
from grader.exercises import EXERCISES, UNITS
from tests.course import ROOT

CHOICES = 6  # of each unit


def solutions(unit: str):
    return nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)


def drawn(unit: str) -> Iterator[Assigned]:
    """Some of its exercises, with points of their own, the others in both ways."""
    chance, names = random.Random(unit), [contract.name for contract in contracts_of(solutions(unit).cells)]
    for number in range(CHOICES):
        chosen = tuple(name for name in names if chance.random() < chance.choice((0.2, 0.5, 0.8)))
        points = {name: chance.randint(0, 20) for name in chosen if chance.random() < 0.3}
        yield Assigned(unit, chosen, OTHERS[number % 2], points)


def unmet(cells, released) -> dict[str, set[str]]:
    """Of each cell that is left, the names that it uses and only others set, of all that the whole unit sets."""
    every, left = (set().union(*(defined_in(cell.source) for cell in some if cell.cell_type == "code"))
                   for some in (cells, released))
    used = {cell.id: (used_in(cell.source) & every) - left for cell in released if cell.cell_type == "code"}
    return {id: names for id, names in used.items() if names}


@pytest.mark.parametrize("unit", UNITS)
def test_every_cell_finds_its_names_and_exactly_what_is_assigned_is_marked(unit):
    whole, refused = solutions(unit), 0
    for chosen in drawn(unit):
        withdrawn = frozenset(chosen.exercises[:1])
        course = CourseFile(units={unit: chosen}, withdrawn=withdrawn)
        try:
            shaped = assigned(whole, chosen, course)
        except BadCourseFile as error:
            assert chosen.others == LEFT_OUT and "would be left out: assign it too" in str(error)
            refused += 1
            continue
        nbformat.validate(shaped)
        assert unmet(whole.cells, shaped.cells) == {}
        assert graded(shaped) == {name: 0 if name in withdrawn else chosen.points.get(name, EXERCISES[name].max_points)
                                  for name in chosen.exercises}
        assert {name_of(cell) for cell in shaped.cells if is_solution(cell)} == {*chosen.exercises}
        assert len({cell.id for cell in shaped.cells}) == len(shaped.cells)
        said = shaped.cells[1].source
        assert all(f"| {contract.title} |" in said for contract in contracts_of(whole.cells)
                   if contract.name in chosen.exercises)
        assert "Core path" not in shaped.cells[0].source and not {" exercises,", " exercise,"} & {shaped.cells[0].source}
    assert refused <= CHOICES // 2


def test_what_is_not_assigned_comes_solved():
    shaped = assigned(solutions("03_zero1"), Assigned("03_zero1", ("sharded_step",)), CourseFile(units={
        "03_zero1": Assigned("03_zero1", ("sharded_step",))}))
    cell = next(cell for cell in shaped.cells if cell.id == "clip_gradient_norm")
    assert "raise NotImplementedError" not in cell.source and "SOLUTION" not in cell.source and not is_solution(cell)
    contract = next(cell for cell in shaped.cells if cell.id == "clip_gradient_norm-contract")
    assert "given, not marked · " in contract.source
