"""Which unit a notebook belongs to: every unit's notebook handed in for every other one is named as what it is."""

import nbformat
import pytest

from grader.course.cell import is_solution, name_of
from grader.course.handed_in import HandedIn, about_others, read_all
from grader.course.mark import mark_submission
from grader.exercises import EXERCISES
from tests.course import ROOT

RELEASED = {path.parent.name: path.read_bytes() for path in
            sorted((ROOT / "notebooks").glob("*/*.ipynb"))}
UNIT_OF = {exercise.id: exercise.unit for exercise in EXERCISES.values()}


def read_for(unit: str, content: bytes) -> HandedIn:
    one, = read_all(content, (), nbformat.reads(RELEASED[unit].decode(), as_version=4), UNIT_OF)
    return one


@pytest.mark.long
@pytest.mark.parametrize("unit", RELEASED)
def test_another_units_notebook_is_named(unit):
    wrong = {other: read_for(unit, content).wrong for other, content in RELEASED.items()}
    assert wrong.pop(unit) == ()
    assert wrong == {other: (f"this is the notebook of {other}, not of {unit}",) for other in wrong}


@pytest.mark.parametrize("other", ["00_start_here", "02_data_parallel"])
def test_another_units_own_cells_raise_no_suspicion(other):
    _, record = mark_submission(RELEASED[other], RELEASED["01_collectives"])
    alarm, = record["alarms"]
    assert alarm["text"].startswith(f"this is the notebook of {other}")


def test_a_student_with_several_notebooks_reads_one_sentence_with_her_own_names():
    empty = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])).encode()
    release = nbformat.reads(RELEASED["00_start_here"].decode(), as_version=4)
    read = read_all(RELEASED["00_start_here"], [("HW1.ipynb", empty), ("other.ipynb", RELEASED["01_collectives"])], release,
                    UNIT_OF, "mine (1).ipynb")
    assert about_others(read, read[0], {"": 3.0}) == [
        "3 notebooks were handed in, and “mine (1).ipynb” counts, not “HW1.ipynb” (none of the notebook's 1 cells belongs "
        "to this unit), not “other.ipynb” (this is the notebook of 01_collectives, not of 00_start_here)"]


def test_a_torn_file_says_so_of_each_exercise_that_it_has_lost():
    content = RELEASED["01_collectives"]
    names = [name_of(cell) for cell in nbformat.reads(content.decode(), as_version=4).cells if is_solution(cell)]
    torn = content[:content.index(b'"grade_id": "%s"' % names[2].encode())]  # in the third one's metadata
    one = read_for("01_collectives", torn)
    assert one.lost == dict.fromkeys(names[2:], "Nothing to judge: the file ends before the end of this exercise.")
    assert read_for("01_collectives", content).lost == {}
    cells = nbformat.reads(content.decode(), as_version=4)
    cells.cells = [cell for cell in cells.cells if name_of(cell) != names[1]]
    damaged = nbformat.writes(cells).replace('"cells": [', '"cells": [,', 1).encode()
    assert read_for("01_collectives", damaged).lost == {
        names[1]: "Nothing to judge: the file is damaged where this exercise stood."}


def test_what_another_units_notebook_defines_for_this_one_is_marked_all_the_same():
    notebook = nbformat.reads(RELEASED["03_zero1"].decode(), as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("def reduce(x, root, group):\n    return x"))
    one = read_for("01_collectives", nbformat.writes(notebook).encode())
    assert one.wrong and not one.nothing_of_the_unit and "reduce" in one.spliced.written


def test_a_second_notebook_needs_a_look_only_where_points_are_missing():
    solved = (ROOT / "solutions" / "00_start_here" / "00_start_here.ipynb").read_bytes()
    release, looks = RELEASED["00_start_here"], {}
    for name, first in {"all points": solved, "none": release}.items():
        _, record = mark_submission(first, release, others=[("HW1.ipynb", b"{}")])
        looks[name] = [alarm["text"] for alarm in record["alarms"] if "notebooks were handed in" in alarm["text"]]
        assert any("notebooks were handed in" in remark for remark in record["remarks"])
    assert looks["all points"] == [] and len(looks["none"]) == 1
