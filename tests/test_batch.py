"""`python -m grader autograde`: the same marks however it is run, nothing lost, nothing twice, and words for what is odd."""

import shutil
import subprocess

import pytest

from grader.course.folder import time_of
from tests.course import Course, solution_cell, verdict_text
from tests.submissions import CHOSEN, MARKS, SAMPLES, UNIT, hand_in

pytestmark = [pytest.mark.xdist_group("batch"), pytest.mark.timeout(600)]
FULL = MARKS["full"]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course with three submissions, an empty folder, and what marking them printed."""
    course = Course(tmp_path_factory.mktemp("batch"), UNIT, CHOSEN)
    hand_in(course, {student: SAMPLES[student] for student in MARKS})
    return course, course.grader("autograde", UNIT)


def test_everyone_is_marked_and_told(graded):
    course, printed = graded
    assert course.marks() == MARKS
    assert all(f"{student:<16} {UNIT}" in printed for student in MARKS)
    assert "8/8 points" in printed and "3 marked in" in printed and "Peak memory: a sandbox" in printed
    assert "4 of 4 points" in verdict_text(course.autograded("full"), "ring_all_reduce")
    assert "whole tensors travel" in verdict_text(course.autograded("partial"), "ring_all_reduce")


def test_nothing_is_marked_twice(graded):
    course, _ = graded
    before = {path: path.stat().st_mtime_ns for path in (course.root / "autograded").rglob("*.ipynb")}
    assert "0 marked in 0 s, 3 unchanged" in course.grader("autograde")
    assert {path: path.stat().st_mtime_ns for path in (course.root / "autograded").rglob("*.ipynb")} == before


def test_the_formgrader_and_feedback_take_it_up(graded):
    course, _ = graded
    course.nbgrader("generate_feedback", UNIT, "--student", "partial", "--force")
    assert "whole tensors travel" in course.feedback("partial")


@pytest.mark.long
def test_a_regrade_prints_what_changes_and_keeps_it(graded):
    course, _ = graded
    file = course.root / "submitted" / "partial" / UNIT / f"{UNIT}.ipynb"
    before = file.read_bytes()
    try:
        shutil.copy(course.root / "submitted" / "full" / UNIT / f"{UNIT}.ipynb", file)
        printed = course.grader("autograde", UNIT, "--student", "p*", "--regrade")
        assert "partial              ring_all_gather              0 → 4" in printed
        assert "partial              ring_all_reduce              2 → 4" in printed and "1 marked" in printed
        assert course.marks() == MARKS | {"partial": FULL}
    finally:
        file.write_bytes(before)
    assert "2 unchanged" in course.grader("autograde", UNIT)
    assert course.marks() == MARKS
    assert "No mark changes." in course.grader("autograde", UNIT, "--student", "blank", "--regrade")


@pytest.mark.long
def test_a_lost_gradebook_is_made_anew_by_one_and_the_others(graded):
    course, _ = graded
    (course.root / "gradebook.db").unlink()
    printed = course.grader("autograde", UNIT, "--student", "partial", "--workers", "1")
    assert f"The gradebook did not know {UNIT}: entered." in printed and "1 marked" in printed
    assert course.marks() == {"partial": MARKS["partial"]}
    course.grader("autograde", UNIT)
    assert course.marks() == MARKS


@pytest.mark.parametrize("arguments, code, words", [
    (["nonsense"], 2, "units that were released: 01_collectives"),
    ([UNIT, "--student", "zoe"], 1, "zoe has not handed in 01_collectives"),
    ([UNIT, "--workers", "0"], 2, "expected 1 or more"),
    ([UNIT, "--regrade", "--scheduler", "carrier-pigeon://x"], 2, "no Dask scheduler answers"),
])
def test_refusals_say_what_to_do(graded, arguments, code, words):
    course, _ = graded
    with pytest.raises(subprocess.CalledProcessError) as caught:
        course.grader("autograde", *arguments)
    assert caught.value.returncode == code and words in caught.value.stdout + caught.value.stderr
    assert "Traceback" not in caught.value.stderr


def test_a_release_that_somebody_worked_in_marks_nobody(graded):
    """Whoever handed in no cell of an exercise would get what stands there."""
    course, _ = graded
    file = course.root / "notebooks" / UNIT / f"{UNIT}.ipynb"
    before = file.read_text()
    try:
        file.write_text(before.replace("raise NotImplementedError", "return None", 1))
        with pytest.raises(subprocess.CalledProcessError) as caught:
            course.grader("autograde", UNIT, "--regrade")
        assert "somebody worked in ring_all_gather" in caught.value.stdout + caught.value.stderr
    finally:
        file.write_text(before)


@pytest.mark.parametrize("text, utc", [
    ("2026-12-01 23:59:00 UTC", "2026-12-01 23:59:00"), ("2026-12-01T23:59:30.5+01:00\n", "2026-12-01 22:59:30.500000"),
    ("2026-12-01 23:59:00 CEST", "None"), ("tomorrow", "None"), ("2026-13-01 00:00 UTC", "None"), ("", "None")])
def test_the_time_of_handing_in_is_read_or_named(tmp_path, text, utc):
    (tmp_path / "timestamp.txt").write_text(text)
    when, remark = time_of(tmp_path)
    assert str(when) == utc and bool(remark) == (utc == "None" and text != "")


@pytest.mark.long
def test_files_that_are_not_quite_notebooks(tmp_path):
    """Through this command and the stock one alike: what can be read is marked, and the rest is named."""
    course = Course(tmp_path, UNIT, CHOSEN)
    for student in ("torn", "renamed", "garbage", "none"):
        course.submit(student, SAMPLES["full"].change)
    folder = {student: tmp_path / "submitted" / student / UNIT for student in ("torn", "renamed", "garbage", "none")}
    whole = (folder["torn"] / f"{UNIT}.ipynb").read_text()
    (folder["torn"] / f"{UNIT}.ipynb").write_text(whole[:whole.rindex("ring_all_reduce_check") - 40])
    (folder["renamed"] / f"{UNIT}.ipynb").rename(folder["renamed"] / "Copy (1).ipynb")
    (folder["torn"] / "timestamp.txt").write_text("the day before yesterday")
    (folder["garbage"] / f"{UNIT}.ipynb").write_bytes(b"\x00\xff no notebook")
    (folder["none"] / f"{UNIT}.ipynb").rename(folder["none"] / "answers.txt")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        course.grader("autograde", UNIT)
    assert caught.value.returncode == 1 and "none/01_collectives holds no 01_collectives.ipynb (it holds answers.txt)" in (
        caught.value.stdout)
    nothing = dict.fromkeys(CHOSEN, 0.0)
    assert course.marks() == {"torn": FULL, "renamed": FULL, "garbage": nothing}
    said = {"torn": "not a whole notebook", "renamed": "is called Copy (1)", "garbage": "no cell could"}
    for student, words in said.items():
        assert words in (tmp_path / "autograded" / student / UNIT / f"{UNIT}.marks.json").read_text()
    assert "timestamp.txt tells no time" in (tmp_path / "autograded" / "torn" / UNIT / f"{UNIT}.marks.json").read_text()
    (folder["torn"] / "timestamp.txt").unlink()  # stock nbgrader cannot take it
    course.nbgrader("autograde", UNIT, "--student", "torn", "--force")
    assert course.marks()["torn"] == FULL


def test_a_broken_solution_costs_its_own_exercise_only(graded):
    course, _ = graded

    def break_one(notebook):
        solution_cell(notebook, "ring_all_gather").source = "def ring_all_gather(x_C, group:\n    return"

    course.submit("broken", break_one)
    course.grader("autograde", UNIT, "--student", "broken")
    assert course.marks()["broken"] == FULL | {"ring_all_gather": 0.0}
