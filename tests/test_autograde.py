"""nbgrader end to end on sample submissions: marks, messages, feedback; and nothing earns what the judge did not see."""

import pytest

from tests.course import Course, check_cell, solution_cell, verdict_text
from tests.submissions import CHOSEN, MARKS, SAMPLES, UNIT, Sample, hand_in

pytestmark = [pytest.mark.xdist_group("autograde"), pytest.mark.timeout(1800)]
FULL, NOTHING = MARKS["full"], MARKS["blank"]


# ── what else a class hands in ──


def dress(notebook):
    """Nothing written, and checks that would all succeed; what else can be done to checks: tests/test_splice.py."""
    for name in CHOSEN:
        cell = check_cell(notebook, name)
        cell.metadata.nbgrader |= {"points": 100, "locked": False}
        cell.metadata["tags"], cell.source = ["skip-execution"], "4.0"


def die_late(notebook):
    solution_cell(notebook, "ring_all_reduce").source = "import os\nos._exit(0)"


CLASS = {**{student: SAMPLES[student] for student in (*MARKS, "raising", "deadlocking")},
         "dressed": Sample(dress, filled_in=False), "dies": Sample(die_late)}


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Course:
    """A class that the stock command has marked, all in one call."""
    course = Course(tmp_path_factory.mktemp("course"), UNIT, CHOSEN)
    hand_in(course, CLASS)
    course.nbgrader("autograde", UNIT)
    return course


# ── what they earn ──


EARNED = {
    "full": (FULL, "4 of 4 points"),
    "partial": (MARKS["partial"], "whole tensors travel"),
    "blank": (NOTHING, "not written yet"),
    "raising": (NOTHING, "IndexError"),
    "deadlocking": (NOTHING, "every rank receives first"),
}


@pytest.mark.long
@pytest.mark.parametrize("student", EARNED)
def test_samples_earn_what_they_should(course, student):
    points, words = EARNED[student]
    assert course.marks()[student] == points
    assert words in "".join(verdict_text(course.autograded(student), name) for name in CHOSEN)


def test_feedback_says_what_the_marked_notebook_says(course):
    course.nbgrader("generate_feedback", UNIT)
    for student, (_, words) in EARNED.items():
        assert words in course.feedback(student)


def test_a_blank_submission_earns_nothing_however_it_dresses(course):
    assert course.marks()["dressed"] == NOTHING
    assert all("not written yet" in verdict_text(course.autograded("dressed"), name) for name in CHOSEN)


def test_a_kernel_that_dies_keeps_what_came_before(course):
    assert course.marks()["dies"] == FULL | {"ring_all_reduce": 0.0}
    assert "it ended the kernel" in verdict_text(course.autograded("dies"), "ring_all_reduce")


@pytest.mark.long
def test_marking_anew_by_name_keeps_everyone_else_s_marks(course):
    before = course.marks()
    course.nbgrader("autograde", UNIT, "--student", "partial", "--force")
    assert course.marks() == before


@pytest.mark.long
def test_validate_lists_the_failed_checks(course, tmp_path):
    course.submit("validates", SAMPLES["partial"].change)
    path = course.root / "submitted" / "validates" / UNIT / f"{UNIT}.ipynb"
    log = course.nbgrader("validate", str(path))
    assert "VALIDATION FAILED ON 2 CELL(S)" in log.upper() and "check.ring_all_reduce" in log
    assert "check.broadcast_naive" not in log
