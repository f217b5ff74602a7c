"""nbgrader end to end on sample submissions: marks, messages, feedback; and nothing earns what the judge did not see."""

import copy

import nbformat.v4
import pytest

from grader.exercises import EXERCISES
from grader.mark import Marks
from tests.course import Course, check_cell, solution_cell, verdict_text
from tests.submissions import SAMPLES, UNIT

pytestmark = [pytest.mark.xdist_group("autograde"), pytest.mark.timeout(600)]
CHOSEN = ("broadcast_naive", "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce")
FULL = {name: EXERCISES[name].max_points for name in CHOSEN}
NOTHING = dict.fromkeys(CHOSEN, 0.0)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return Course(tmp_path_factory.mktemp("course"), UNIT, CHOSEN)


def grade(course, student, change=lambda notebook: None, filled_in=True):
    """(points by exercise, marked notebook) of one submission, through the stock command."""
    course.submit(student, change, filled_in)
    course.nbgrader("autograde", UNIT, "--student", student, "--force")
    return course.marks()[student], course.autograded(student)


@pytest.mark.parametrize("student, points, words", [
    ("full", FULL, "4 of 4 points"),
    ("partial", FULL | {"ring_all_reduce": 2.0, "ring_all_gather": 0.0}, "whole tensors travel"),
    ("blank", NOTHING, "not written yet"),
    ("raising", NOTHING, "IndexError"),
    ("deadlocking", NOTHING, "every rank receives first"),
    ("looping", NOTHING, "was not done in time"),
])
def test_samples_earn_what_they_should(course, student, points, words):
    sample = SAMPLES[student]
    found, notebook = grade(course, student, sample.change, sample.filled_in)
    assert found == points
    assert words in "".join(verdict_text(notebook, name) for name in CHOSEN)
    course.nbgrader("generate_feedback", UNIT, "--student", student, "--force")
    assert words in course.feedback(student)


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


@pytest.mark.parametrize("change", [skip_the_checks, silence_the_checks, print_points, unlock_the_checks,
                                    delete_the_checks, duplicate_the_checks, fake_the_check, die_first])
def test_a_blank_submission_earns_nothing_however_it_dresses(course, change):
    points, notebook = grade(course, change.__name__, change, filled_in=False)
    assert points == NOTHING
    for name in CHOSEN:
        text = verdict_text(notebook, name)
        assert "not written yet" in text or "Nothing to judge: " in text


@pytest.mark.long
@pytest.mark.parametrize("change", [skip_the_checks, silence_the_checks, delete_the_checks, duplicate_the_checks])
def test_a_right_submission_keeps_its_marks_whatever_happened_to_the_checks(course, change):
    assert grade(course, f"right_{change.__name__}", change)[0] == FULL


def test_a_warning_on_stderr_costs_nothing(course):
    def warn(notebook):
        cell = solution_cell(notebook, "ring_all_reduce")
        cell.source = "import sys, warnings\nwarnings.warn('deprecated')\nprint('x', file=sys.stderr)\n" + cell.source

    assert grade(course, "warning", warn)[0] == FULL


def test_a_kernel_that_dies_keeps_what_came_before(course):
    def die_late(notebook):
        solution_cell(notebook, "ring_all_gather").source = "import os\nos._exit(0)"

    points, notebook = grade(course, "dies", die_late)
    assert points == NOTHING | {name: FULL[name] for name in CHOSEN[:2]}
    assert "the kernel died in the cell 'ring_all_gather'" in verdict_text(notebook, "ring_all_reduce")


@pytest.mark.long
def test_a_cell_that_hangs_costs_its_exercise_only(course):
    points, notebook = grade(course, "hangs", hang_first)
    assert points == FULL | {CHOSEN[0]: 0.0}
    assert "was not done after" in verdict_text(notebook, CHOSEN[0])


def test_extra_cells_and_renamed_ones(course):
    def add_helper(notebook):
        index = notebook.cells.index(solution_cell(notebook, "ring_all_gather"))
        helper = nbformat.v4.new_code_cell("def my_helper(x):\n    return x")
        helper.metadata["tags"] = ["skip-execution"]
        notebook.cells.insert(index, helper)
        notebook.cells[index + 1].source = notebook.cells[index + 1].source.replace("return ", "return my_helper(", 1)
        cell = notebook.cells[index + 1]
        lines = cell.source.splitlines()
        last = max(i for i, line in enumerate(lines) if "my_helper(" in line)
        lines[last] += ")"
        cell.source = "\n".join(lines)

    points, _ = grade(course, "helper", add_helper)
    assert points["ring_reduce_scatter"] == FULL["ring_reduce_scatter"]


def test_validate_lists_the_failed_checks(course, tmp_path):
    course.submit("validates", SAMPLES["partial"].change)
    path = course.root / "submitted" / "validates" / UNIT / f"{UNIT}.ipynb"
    log = course.nbgrader("validate", str(path))
    assert "VALIDATION FAILED ON 2 CELL(S)" in log.upper() and "check.ring_all_reduce" in log
    assert "check.broadcast_naive" not in log


def test_marks_without_a_verdict_are_zero():
    assert Marks(seed=1).points("ring_all_reduce") == 0.0
