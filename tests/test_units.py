"""A sample submission of every unit that trains, marked in the sandbox: right, wrong and unwritten side by side.

In all kinds of cases and a plain one; tests/test_exercises.py tries the references in all, on ranks outside.
"""

import nbformat
import pytest

from grader.course.mark import mark_submission
from grader.course.splice import is_solution, name_of
from grader.exercises import EXERCISES
from tests.course import ROOT, SANDBOX
from tests.few_cases import with_few_cases
from tests.submissions import SLIPS, slip

pytestmark = [pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap"), pytest.mark.timeout(600), pytest.mark.long]


@pytest.mark.parametrize("unit", SLIPS)
def test_a_slip_costs_its_exercise_and_every_right_one_earns_everything(unit):
    released = (ROOT / "notebooks" / unit / f"{unit}.ipynb").read_bytes()
    source = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    solutions = {name_of(cell): cell.source for cell in source.cells if is_solution(cell)}
    notebook = nbformat.reads(released.decode(), as_version=4)
    for cell in notebook.cells:
        if is_solution(cell):
            cell.source = solutions[name_of(cell)]
    slip(unit)(notebook)
    known = {name: with_few_cases(exercise, plain=1) for name, exercise in EXERCISES.items()}
    _, record = mark_submission(nbformat.writes(notebook).encode(), released, known=known)
    wrong, *_, hint, blank = SLIPS[unit]
    assert record["alarms"] == []
    for name, verdict in record["exercises"].items():
        full = EXERCISES[name].max_points
        assert verdict["points"] == (0 if name in (wrong, blank) else full), (name, verdict)
    assert record["exercises"][wrong]["hints"][0][0] == hint, record["exercises"][wrong]
    assert "not written yet" in str(record["exercises"][blank])
