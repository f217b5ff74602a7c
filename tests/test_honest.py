"""A right notebook stays right whatever honest people and programs do to it: a small unit in all ways, others by sample.

`make changes` tries all of them on whole units. Here a unit of two exercises is marked in the sandbox after each change, and
three whole units after two changes each, that are drawn by the unit's name; all in few cases.
"""

import json
import random
import zlib

import pytest

from grader.course import running
from grader.course.splice import Step
from grader.exercises import EXERCISES
from tests.changes import CHANGES, OF_FILES, Remembered, changed, faults, right_notebook
from tests.course import ROOT, SANDBOX
from tests.few_cases import with_few_cases

pytestmark = [pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap"), pytest.mark.timeout(300)]
UNIT, SMALL = "00_start_here", ("global_mean", "hello_rank")  # neither needs the other
WHOLE = ("04_zero2", "09_putting_together", "11_planner")
CELL_TIMEOUT_S = 3


@pytest.fixture(scope="module")
def remembered():
    return Remembered()


@pytest.fixture(autouse=True)
def given_up_sooner(monkeypatch, remembered):
    monkeypatch.setattr(running, "CELL_TIMEOUT_S", CELL_TIMEOUT_S)
    with remembered.patched():
        yield


def without_others(data: dict) -> dict:
    """A notebook without the exercises that are not tried here, and what only shows things, but for one cell."""
    kept, shows = [], 0
    for cell in data["cells"]:
        facts = cell["metadata"].get("nbgrader", {})
        watch = "watch" in cell["metadata"].get("tags", [])
        shows += watch
        if facts.get("grade_id", "").removesuffix("_check") in SMALL or (not facts and (not watch or shows == 1)):
            kept.append(cell)
    return data | {"cells": kept}


@pytest.fixture(scope="module")
def small():
    """(the right notebook, the released one, exercises with few cases)"""
    released = without_others(json.loads((ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes()))
    known = {name: with_few_cases(EXERCISES[name], plain=1, kinds=()) for name in SMALL}
    return without_others(right_notebook(UNIT)), json.dumps(released).encode(), known


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGES)
def test_a_small_unit(name, small):
    right, released, known = small
    assert faults(changed(UNIT, (name,), "global_mean", right=right), released, known) == []


@pytest.mark.long
@pytest.mark.parametrize("unit", WHOLE)
def test_a_pair_of_changes_to_a_whole_unit(unit):
    chance = random.Random(zlib.crc32(unit.encode()))
    names = tuple(chance.sample(sorted(CHANGES.keys() - OF_FILES), 2))
    known = {name: with_few_cases(exercise, plain=1, kinds=()) for name, exercise in EXERCISES.items()}
    exercise = chance.choice([name for name in known if known[name].unit == unit])
    released = (ROOT / "notebooks" / unit / f"{unit}.ipynb").read_bytes()
    assert faults(changed(unit, names, exercise), released, known) == []


def test_a_cell_of_definitions_is_not_blamed_for_what_an_earlier_one_set_going():
    timer = Step("import os, threading\nthreading.Timer(0.3, os._exit, [1]).start()", "cell 1 (a timer)")
    slow = Step("import time\ndef hello_rank(slept=time.sleep(1.5)):\n    return 1", "cell 2 (a function)")
    its_check = Step("", "cell 3 (its check)", hands_over="hello_rank")
    ran = running.run_cells([timer, slow, its_check], [EXERCISES["hello_rank"]])
    assert ran.versions("hello_rank"), ran.remarks
    assert "of all cells only the imports, functions and classes were run" in ran.remarks[0]
