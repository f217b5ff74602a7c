"""nbgrader end to end on sample submissions: marks, messages, feedback; and nothing earns what the judge did not see."""

import copy

import nbformat.v4
import pytest

from grader.exercises import EXERCISES
from tests.course import Course, check_cell, solution_cell, verdict_text
from tests.submissions import SAMPLES, UNIT, Sample, hand_in

pytestmark = [pytest.mark.xdist_group("autograde"), pytest.mark.timeout(1800)]
CHOSEN = ("broadcast_naive", "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce")
FULL = {name: EXERCISES[name].max_points for name in CHOSEN}
NOTHING = dict.fromkeys(CHOSEN, 0.0)


# ── what else a class hands in ──


def skip_the_checks(notebook):
    for name in CHOSEN:
        check_cell(notebook, name).metadata["tags"] = ["skip-execution"]


def silence_the_checks(notebook):
    for name in CHOSEN:
        check_cell(notebook, name).source = "pass"


def print_points(notebook):
    for name in CHOSEN:
        check_cell(notebook, name).source = "4.0"


def unlock_the_checks(notebook):
    for name in CHOSEN:
        check_cell(notebook, name).metadata.nbgrader |= {"points": 100, "locked": False}
        check_cell(notebook, name).source = "print('ok')"


def delete_the_checks(notebook):
    notebook.cells = [c for c in notebook.cells if not c.metadata.get("nbgrader", {}).get("grade")]


def duplicate_the_checks(notebook):
    for name in CHOSEN:
        twin = copy.deepcopy(check_cell(notebook, name))
        twin.source, twin.id = "pass", f"{name}-twin"
        notebook.cells.append(twin)


def fake_the_check(notebook):
    solution_cell(notebook, CHOSEN[0]).source += """
class Fake:
    def __getattr__(self, name):
        return lambda fn: 4.0
check = Fake()
"""


def die_first(notebook):
    solution_cell(notebook, CHOSEN[0]).source = "import os\nos._exit(0)"


def hang_first(notebook):
    solution_cell(notebook, CHOSEN[0]).source = "import time\ntime.sleep(10_000)"


def warn(notebook):
    cell = solution_cell(notebook, "ring_all_reduce")
    cell.source = "import sys, warnings\nwarnings.warn('deprecated')\nprint('x', file=sys.stderr)\n" + cell.source


def die_late(notebook):
    solution_cell(notebook, "ring_all_gather").source = "import os\nos._exit(0)"


def add_helper(notebook):
    cell = solution_cell(notebook, "ring_all_gather")
    helper = nbformat.v4.new_code_cell("def my_helper(x):\n    return x")
    helper.metadata["tags"] = ["skip-execution"]
    notebook.cells.insert(notebook.cells.index(cell), helper)
    before, _, after = cell.source.rpartition("return ")
    value, *rest = after.splitlines()
    cell.source = "\n".join([f"{before}return my_helper({value})", *rest])


DRESSED = (skip_the_checks, delete_the_checks, fake_the_check, die_first)
DRESSED_LATE = (silence_the_checks, print_points, unlock_the_checks, duplicate_the_checks)
TOUCHED = (skip_the_checks, silence_the_checks, delete_the_checks, duplicate_the_checks)
CLASS = {**SAMPLES, **{change.__name__: Sample(change, filled_in=False) for change in DRESSED}, "dies": Sample(die_late)}
LATECOMERS = {**{change.__name__: Sample(change, filled_in=False) for change in DRESSED_LATE},
              **{f"right_{change.__name__}": Sample(change) for change in TOUCHED},
              "warns": Sample(warn), "helps_herself": Sample(add_helper), "hangs": Sample(hang_first)}


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Course:
    """A class that the stock command has marked, all in one call."""
    course = Course(tmp_path_factory.mktemp("course"), UNIT, CHOSEN)
    hand_in(course, CLASS)
    course.nbgrader("autograde", UNIT)
    return course


@pytest.fixture(scope="module")
def later(course) -> Course:
    """Then some more, marked by another call."""
    hand_in(course, LATECOMERS)
    course.nbgrader("autograde", UNIT)
    return course


# ── what they earn ──


EARNED = {
    "full": (FULL, "4 of 4 points"),
    "partial": (FULL | {"ring_all_reduce": 2.0, "ring_all_gather": 0.0}, "whole tensors travel"),
    "blank": (NOTHING, "not written yet"),
    "raising": (NOTHING, "IndexError"),
    "deadlocking": (NOTHING, "every rank receives first"),
    "looping": (NOTHING, "was not done in time"),
}


@pytest.mark.parametrize("student", EARNED)
def test_samples_earn_what_they_should(course, student):
    points, words = EARNED[student]
    assert course.marks()[student] == points
    assert words in "".join(verdict_text(course.autograded(student), name) for name in CHOSEN)


def test_feedback_says_what_the_marked_notebook_says(course):
    course.nbgrader("generate_feedback", UNIT)
    for student, (_, words) in EARNED.items():
        assert words in course.feedback(student)


def earned_nothing(course: Course, student: str) -> None:
    assert course.marks()[student] == NOTHING
    for name in CHOSEN:
        text = verdict_text(course.autograded(student), name)
        assert "not written yet" in text or "Nothing to judge: " in text


@pytest.mark.parametrize("student", [change.__name__ for change in DRESSED])
def test_a_blank_submission_earns_nothing_however_it_dresses(course, student):
    earned_nothing(course, student)


@pytest.mark.long
@pytest.mark.parametrize("student", [change.__name__ for change in DRESSED_LATE])
def test_nor_in_any_other_dress(later, student):
    earned_nothing(later, student)


@pytest.mark.long
@pytest.mark.parametrize("student", [f"right_{change.__name__}" for change in TOUCHED])
def test_a_right_submission_keeps_its_marks_whatever_happened_to_the_checks(later, student):
    assert later.marks()[student] == FULL


@pytest.mark.long
def test_a_warning_on_stderr_costs_nothing(later):
    assert later.marks()["warns"] == FULL


def test_a_kernel_that_dies_keeps_what_came_before(course):
    assert course.marks()["dies"] == NOTHING | {name: FULL[name] for name in CHOSEN[:2]}
    assert "the kernel died in the cell 'ring_all_gather'" in verdict_text(course.autograded("dies"), "ring_all_reduce")


@pytest.mark.long
def test_a_cell_that_hangs_costs_its_exercise_only(later):
    assert later.marks()["hangs"] == FULL | {CHOSEN[0]: 0.0}
    assert "was not done after" in verdict_text(later.autograded("hangs"), CHOSEN[0])


@pytest.mark.long
def test_a_student_s_own_cells_are_used(later):
    """Here: one that the checked function needs."""
    assert later.marks()["helps_herself"] == FULL


@pytest.mark.long
def test_marking_anew_by_name_keeps_everyone_else_s_marks(later):
    before = later.marks()
    later.nbgrader("autograde", UNIT, "--student", "partial", "--force")
    assert later.marks() == before


def test_validate_lists_the_failed_checks(course, tmp_path):
    course.submit("validates", SAMPLES["partial"].change)
    path = course.root / "submitted" / "validates" / UNIT / f"{UNIT}.ipynb"
    log = course.nbgrader("validate", str(path))
    assert "VALIDATION FAILED ON 2 CELL(S)" in log.upper() and "check.ring_all_reduce" in log
    assert "check.broadcast_naive" not in log
