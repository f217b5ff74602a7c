"""A unit as a course file assigns it: whatever is chosen, each cell finds the names that it uses, and points agree."""

import csv
import datetime
import json
import random
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from grader.contracts import contracts_of
from grader.course.assign import preview
from grader.course.assigning import assigned, graded, right_program
from grader.course.cell import is_solution, name_of
from grader.course.course_file import LEFT_OUT, OTHERS, Assigned, BadCourseFile, CourseFile, LateRule, read
from grader.course.mark import left_unmarked
from grader.course.release import refuse_wrong_marks
from grader.course.source import defined_in, used_in
from grader.exercises import EXERCISES, UNITS
from grader.exercises.references import reference_cell
from grader.report.records import read_record
from tests.course import ROOT, Course, solution_cell
from tests.submissions import SAMPLES

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
        marked = read_record("ann", left_unmarked(nbformat.writes(shaped).encode(), "only a test")[1])
        assert {name: outcome.max_points for name, outcome in marked.outcomes.items()} == graded(shaped)
        assert len({cell.id for cell in shaped.cells}) == len(shaped.cells)
        said = shaped.cells[1].source
        rows = [f"| {contract.title} | {contract.minutes} | " + (
            "withdrawn |" if contract.name in withdrawn else f"{graded(shaped)[contract.name]:g} |")
            for contract in contracts_of(whole.cells) if contract.name in chosen.exercises]
        assert [line for line in said.split("\n") if line.startswith("| ")][1:] == rows
        first = shaped.cells[0].source
        assert not re.search(r"core path(?! attention)|skip the rest|\d exercise|\w\.[A-Z]\w+ \w|\n\n\n", first, re.I)
    assert refused <= CHOICES // 2


def test_what_is_not_assigned_comes_solved():
    shaped = assigned(solutions("03_zero1"), Assigned("03_zero1", ("sharded_step",)), CourseFile(units={
        "03_zero1": Assigned("03_zero1", ("sharded_step",))}))
    cell = next(cell for cell in shaped.cells if cell.id == "clip_gradient_norm")
    assert "raise NotImplementedError" not in cell.source and "SOLUTION" not in cell.source and not is_solution(cell)
    contract = next(cell for cell in shaped.cells if cell.id == "clip_gradient_norm-contract")
    assert "given, not marked · " in contract.source


def test_the_preview_says_which_path_an_exercise_is_on():
    unit = Assigned("03_zero1", ("sharded_step", "FlatOptimizer", "reshard"))
    course = CourseFile(units={unit.unit: unit})
    notebook = solutions(unit.unit)
    lines = [*preview(course, unit, assigned(notebook, unit, course), graded(notebook))]
    assert [" ".join(line.split()[:2]) for line in lines[1:]] == ["sharded_step ★", "FlatOptimizer 8", "reshard (c)"]


@pytest.mark.parametrize("rule, words", [
    (LateRule(), ""), (LateRule(10), " Being late costs 10 % of your points for each day that has begun."),
    (LateRule(0, 3), " A notebook that comes more than 3 days late has no points.")])
def test_students_read_what_being_late_costs(rule, words):
    unit = Assigned("01_collectives", ("ring_time",), due=datetime.datetime(2027, 5, 3, 12))
    shaped = assigned(solutions("01_collectives"), unit, CourseFile(units={"01_collectives": unit}, late=rule))
    assert f"Hand in by 03 May 2027, 12:00 (UTC).{words}\n" in shaped.cells[1].source


def test_a_unit_without_exercises_is_handed_out_unmarked():
    unit = Assigned("00_start_here", ())
    shaped = assigned(solutions(unit.unit), unit, CourseFile(title="a course", units={unit.unit: unit}))
    assert graded(shaped) == {} and shaped.cells[1].source == (
        "**In a course, this unit is not marked.** Its exercises are solved.")


@pytest.mark.parametrize("name", EXERCISES)
def test_a_program_that_is_given_is_the_right_one(name):
    source = right_program(reference_cell(EXERCISES[name].unit, name))
    assert not re.search(r"# (broken|fault)\b|SOLUTION", source)
    compile(source, name, "exec")


# ── a term ──

UNIT, OWN = "01_collectives", ("ring_time", "fit_alpha_beta", "bandwidths")
FILE = """
[units.01_collectives]
exercises = ["ring_time", "fit_alpha_beta"]
points = { ring_time = 10 }
due = 2027-05-03T12:00:00
[late]
percent_a_day = 10
[extensions]
bob = { 01_collectives = 2027-05-05T12:00:00 }
"""


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path, UNIT, OWN)


def write(course: Course, text: str) -> None:
    (course.root / "course.toml").write_text(text)


def hand_in(course: Course, student: str, when: str) -> None:
    course.skeleton = nbformat.read(course.root / "assigned" / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    course.submit(student, SAMPLES["full"].change)
    (course.root / "submitted" / student / UNIT / "timestamp.txt").write_text(when)


def test_what_is_released_marked_reported_and_exported_agrees(course):
    write(course, FILE)
    printed = course.grader("assign", "--dry-run")
    assert "2 exercises" in printed and "10 points" in printed and not (course.root / "assigned").exists()
    assert ("being late: costs 10 % a day\n" in printed
            and "extension of bob in 01_collectives: 05 May 2027, 12:00 (UTC)\n" in printed)
    course.grader("assign")
    for student in ("ann", "bob"):
        hand_in(course, student, "2027-05-04 11:00:00 UTC")  # not a day late; bob may
    course.grader("autograde", UNIT)
    fit = EXERCISES["fit_alpha_beta"].max_points
    assert course.marks() == {student: {"ring_time": 10, "fit_alpha_beta": fit} for student in ("ann", "bob")}
    with course.gradebook() as gradebook:
        penalty = {student: gradebook.find_submission(UNIT, student).late_submission_penalty for student in ("ann", "bob")}
    assert penalty == {"ann": pytest.approx((10 + fit) / 10), "bob": 0}
    record = json.loads((course.root / "autograded" / "ann" / UNIT / f"{UNIT}.marks.json").read_text())
    assert {name: (v["points"], v["max_points"]) for name, v in record["exercises"].items()} == {
        "ring_time": (10, 10), "fit_alpha_beta": (fit, fit)}
    course.grader("report", UNIT)
    rows = list(csv.DictReader((course.root / "reports" / UNIT / "submissions.csv").open()))
    assert [(row["student"], float(row["points"]), float(row["max_points"])) for row in rows] == [
        ("ann", 10 + fit, 10 + fit), ("bob", 10 + fit, 10 + fit)]

    printed = course.grader("points", "bob", "ring_time", "7.5", "--comment", "A <b>good</b> try")
    assert printed == "bob, ring_time: 10 → 7.5 of 10 points\n"
    for arguments, words in ((["bob", "ring_tim", "1"], "Did you mean 'ring_time'?"),
                             (["bob", "ring_time", "11"], "11 is not between 0 and that"), (["cy", "ring_time", "1"], "cy")):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            course.grader("points", *arguments)
        assert caught.value.returncode == 2 and words in caught.value.stderr
    with course.gradebook() as gradebook:  # as the formgrader does
        assert gradebook.find_grade("ring_time_check", UNIT, UNIT, "bob").manual_score == 7.5
        gradebook.find_grade("fit_alpha_beta_check", UNIT, UNIT, "ann").manual_score = fit - 1
        gradebook.update_or_create_student("ann", first_name="Ann", last_name="Lee")  # as collect does
        gradebook.db.commit()
    (course.root / "requests" / UNIT).mkdir(parents=True)
    (course.root / "requests" / UNIT / "bob.txt").write_text("Exercise: fit_alpha_beta\nWhy <b>?\n\nAnswer: So.")
    assert "No mark changes." in course.grader("autograde", UNIT, "--exercise", "ring_time", "--same-cases")
    (course.root / "roster.csv").write_text("id,name\nann,Ann\nbob,Bob\n")
    marked = course.autograded("ann")  # as if she had written nothing there
    solution_cell(marked, "ring_time").source = solution_cell(course.skeleton, "ring_time").source
    nbformat.write(marked, course.root / "autograded" / "ann" / UNIT / f"{UNIT}.ipynb")
    course.grader("handback", "folder", UNIT, "--roster", str(course.root / "roster.csv"))
    back = list(csv.DictReader((course.root / "handed_back" / UNIT / "marks.csv").open()))
    assert [(row["id"], float(row["points"]), float(row["of"])) for row in back] == [
        ("ann", pytest.approx((9 + fit) * 0.9), 10 + fit), ("bob", 7.5 + fit, 10 + fit)]
    with zipfile.ZipFile(course.root / "handed_back" / UNIT / "feedback.zip") as archive:
        page = archive.read("bob/feedback.html").decode()
        late = archive.read("ann/feedback.html").decode()
    assert f"{(9 + fit) / 10:g} points were taken off because it was late: 1 day × 10 %." in late
    assert (page.count("What you handed in"), late.count("What you handed in")) == (2, 1)
    printed = course.grader("report", UNIT, "--student", "ann")
    assert "\nann (Ann Lee)\n" in printed
    assert f"{(9 + fit) / 10:g} points off for being late: 1 day × 10 %" in printed
    assert f"fit_alpha_beta ({fit:g} of {fit:g}; {fit - 1:g} by hand): the points were given by hand" in printed
    for words in (f"{7.5 + fit:g} of {10 + fit:g} points", "7.5 of 10 points were given by hand, and these count.",
                  "<td>The points were given by hand. A &lt;b&gt;good&lt;/b&gt; try</td>", "Your request is answered below:",
                  '<a href="#fit_alpha_beta-answer">', '<p id="fit_alpha_beta-answer">',
                  "A &lt;b&gt;good&lt;/b&gt; try", "Why &lt;b&gt;?", "So."):
        assert words in page

    write(course, FILE + "ann = { 01_collectives = 2027-05-06 }\n")  # a second extension, once she is marked
    printed = course.grader("autograde", UNIT)
    assert "2 unchanged" in printed and f"1 penalty changed: ann (Ann Lee) {(9 + fit) / 10:g} → 0" in printed
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(UNIT, "ann").late_submission_penalty == 0
    write(course, FILE + "bob = 3\n")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        course.grader("autograde", UNIT)
    assert caught.value.returncode == 2 and "course.toml" in caught.value.stderr

    write(course, FILE.replace("\n[units", "withdrawn = [\"ring_time\"]\n[units", 1))
    printed = course.grader("assign")
    for words in ("ring_time: 10 → 0 points", "ring_time: withdrawn from now on",
                  f"{10 + fit:g} → {fit:g} points in all. Set the assignment's maximum grade on the platform to {fit:g}"):
        assert words in printed
    assert "Nothing has changed since the last release." in course.grader("assign", "--dry-run")
    printed = course.grader("handback", "folder", UNIT, "--roster", str(course.root / "roster.csv"), "--dry-run")
    assert f"exercises changed: ann; bob. `python -m grader autograde {UNIT} --same-cases` marks these anew" in printed
    printed = course.grader("autograde", UNIT, "--same-cases")
    assert "What changes:" in printed and re.search(r"ann \(Ann Lee\) +ring_time +10 → 0\n", printed)
    assert course.marks()["bob"] == {"ring_time": 0, "fit_alpha_beta": fit}
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(UNIT, "bob").max_score == fit

    write(course, FILE.replace('"ring_time", ', "").replace("points = { ring_time = 10 }", ""))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        course.grader("assign")
    assert "students have marks in 01_collectives, and ring_time would be lost" in caught.value.stderr


def test_a_gradebook_from_before_the_course_file_is_taken_over(course):
    """Marks and points by hand stay, and what would lose an exercise is refused."""
    course.submit("ann", SAMPLES["full"].change)
    course.grader("autograde", UNIT)
    with course.gradebook() as gradebook:
        gradebook.find_grade("ring_time_check", UNIT, UNIT, "ann").manual_score = 1
        gradebook.db.commit()
    marked = {name: EXERCISES[name].max_points for name in OWN} | {"ring_time": 1}
    assert course.marks() == {"ann": marked}
    write(course, FILE)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        course.grader("assign")
    assert 'bandwidths would be lost. Leave it assigned, and withdraw it' in caught.value.stderr
    write(course, 'withdrawn = ["bandwidths"]\n[units.01_collectives]\npoints = { fit_alpha_beta = 10 }\n')
    course.grader("assign")
    assert course.marks() == {"ann": marked}
    assert "1 marked" in course.grader("autograde", UNIT)  # what she handed in before is held against the new release
    assert course.marks() == {"ann": {"ring_time": 1, "fit_alpha_beta": 10, "bandwidths": 0}}
    assert "1 marked" in course.grader("report", UNIT)


def test_without_a_course_file_or_with_a_bad_one_nothing_is_changed(course):
    for text, words in ((None, "copy course.example.toml"), ("[units.01_collective]", "Did you mean '01_collectives'?")):
        if text:
            write(course, text)
        with pytest.raises(subprocess.CalledProcessError) as caught:
            course.grader("assign")
        assert caught.value.returncode == 2 and words in caught.value.stderr
    assert not (course.root / "assigned").exists()


@pytest.mark.parametrize("mark, slip, words", [
    ("### END SOLUTION", "### END SOLUTON", "reads '### END SOLUTON', and '### END SOLUTION' was expected"),
    ("### BEGIN SOLUTION", "### BEGIN  SOLUTION", "reads '### BEGIN  SOLUTION', and '### BEGIN SOLUTION' was expected"),
    ("### END SOLUTION", "", "the ### BEGIN SOLUTION in its line 3 has no ### END SOLUTION")])
def test_a_slip_in_a_solution_names_its_cell_and_leaves_the_last_release(course, mark, slip, words):
    write(course, FILE)
    course.grader("assign")
    released = course.root / "assigned" / "notebooks" / UNIT / f"{UNIT}.ipynb"
    before, source = released.read_bytes(), course.root / "solutions" / UNIT / f"{UNIT}.ipynb"
    notebook = nbformat.read(source, as_version=4)
    number, cell = next((number, cell) for number, cell in enumerate(notebook.cells, 1) if name_of(cell) == "ring_time")
    cell.source = cell.source.replace(mark, slip)
    nbformat.write(notebook, source)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        course.grader("assign")
    line, = caught.value.stderr.splitlines()
    assert f"solutions/{UNIT}/{UNIT}.ipynb, cell {number} (“" in line and words in line
    assert released.read_bytes() == before


def test_what_nbgrader_cannot_release_leaves_the_last_release(course):
    write(course, FILE)
    course.grader("assign")
    released = course.root / "assigned" / "notebooks" / UNIT / f"{UNIT}.ipynb"
    before, source = released.read_bytes(), course.root / "solutions" / UNIT / f"{UNIT}.ipynb"
    notebook = nbformat.read(source, as_version=4)
    notebook.cells.append(new_code_cell("### BEGIN SOLUTION\n### END SOLUTION"))
    nbformat.write(notebook, source)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        course.grader("assign")
    line, = caught.value.stderr.splitlines()
    assert line.startswith("The notebooks of the last release are unchanged: nbgrader could not release")
    assert "RuntimeError" in line
    assert released.read_bytes() == before


@pytest.mark.parametrize("unit", UNITS)
def test_every_solution_stands_between_its_marks(unit):
    refuse_wrong_marks(Path(unit), solutions(unit))


def test_the_example_says_what_it_could(course):
    text = (ROOT / "course.example.toml").read_text()
    known = {unit: contracts_of(solutions(unit).cells) for unit in ("01_collectives", "02_data_parallel")}
    (course.root / "course.toml").write_text(text)
    assert {*read(course.root / "course.toml", known).units} == {*known}
