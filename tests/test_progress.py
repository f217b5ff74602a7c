"""progress(): what was checked and guessed is kept in a file of the reader's own, and said with what comes next."""

import json

import nbformat
import pytest

from grader import progress
from grader.exercises.references import ROOT
from grader.judging.verdict import Verdict
from utils import Predictions
from utils.notebook import record

UNIT, OTHER = "01_collectives", "02_data_parallel"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A reader's folder with two units, and unit 01's notebook open."""
    for unit in (UNIT, OTHER):
        (tmp_path / unit).mkdir()
        (tmp_path / unit / f"{unit}.ipynb").write_bytes((ROOT / "notebooks" / unit / f"{unit}.ipynb").read_bytes())
    monkeypatch.chdir(tmp_path / UNIT)
    monkeypatch.setattr(record, "running_shell", lambda: "a notebook's shell")
    return tmp_path


@pytest.fixture
def clock(monkeypatch):
    """Seconds, which a test moves on."""
    now = [1e9]
    monkeypatch.setattr(record.time, "time", lambda: now[0])
    return now


def row(unit=UNIT) -> tuple[str, ...]:
    return next(unit_.row for unit_ in progress().units if unit_.name == unit)


def test_a_check_is_kept_and_the_next_exercise_named(course):
    said = repr(progress())
    assert "not checked yet" in said and "no mark" in said
    assert "Next on the core path: Ring reduce-scatter (ring_reduce_scatter, 25 minutes), in 01_collectives." in said
    record.note_check("ring_reduce_scatter", 1.0, 4.0)
    assert "1 of 4 points in 1 try" in repr(progress()) and row()[3].startswith("1 of ")
    record.note_check("ring_reduce_scatter", 4.0, 4.0)
    assert "4 of 4 points in 2 tries" in repr(progress()) and row()[1:3] == ("1 of 6", "1 of 14")
    assert "Next on the core path: Ring all-gather" in repr(progress())
    assert "Core path: 1 of 10 exercises, 25 min of 2 h 00 of writing." in repr(progress())
    assert "✓" in progress()._repr_html_()


def test_the_core_path_comes_first_then_the_rest_and_challenges_last(course):
    def pass_all(unit, path):
        for exercise in next(each for each in progress().units if each.name == unit).exercises:
            if exercise.path == path:
                record.note_check(exercise.name, exercise.points, exercise.points)

    for path, words in (("core", "on the core path"), ("further", "further"), ("challenge", "a challenge")):
        for unit in (UNIT, OTHER):
            if any(exercise.path == path for each in progress().units if each.name == unit for exercise in each.exercises):
                assert words in progress().next_step and f"in {unit}" in progress().next_step
            pass_all(unit, path)
    assert "Everything is done" in progress().next_step


def test_the_points_are_those_of_the_course():
    units = {unit.name: unit for unit in progress(ROOT / "notebooks").units}
    assert len(units) == 12
    for unit in units.values():
        notebook = nbformat.read(ROOT / "notebooks" / unit.name / f"{unit.name}.ipynb", as_version=4)
        graded = [cell.metadata.nbgrader for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
        assert sum(exercise.points for exercise in unit.exercises) == sum(facts.points for facts in graded)
        assert all(exercise.title != exercise.name and exercise.minutes for exercise in unit.exercises)


def test_a_guess_outlives_the_kernel(course):
    Predictions(UNIT).number("bytes", "How many?").keep(12.0)
    assert row()[4] == "–"  # not measured yet
    anew = Predictions(UNIT)
    assert "Your guess: 12" in repr(anew.number("bytes", "How many?"))
    anew.compare("bytes", measured=12)
    assert row()[4] == "1 of 1"
    Predictions(UNIT).number("bytes", "How many?", 12)  # run again from the top: nothing is measured yet
    assert row()[4] == "1 of 1"
    Predictions(UNIT).number("bytes", "How many?", 13)
    assert row()[4] == "–"
    assert anew.choice("bytes", "Which?", ["a", "b"]).question.guess is None  # the question has changed


def test_time_counts_but_no_pause(course, clock):
    Predictions(UNIT)  # the unit's beginning
    for minutes in (30, 5, 300, 4):
        clock[0] += 60 * minutes
        record.note_check("broadcast_naive", 0.0, 2.0)
    assert row()[5].startswith("39 min of ")


def test_a_minute_counts_for_one_unit(course, clock, monkeypatch):
    Predictions(UNIT)
    clock[0] += 600
    monkeypatch.chdir(course / OTHER)
    record.note_check("shard_batch", 0.0, 2.0)
    clock[0] += 600
    monkeypatch.chdir(course / UNIT)
    record.note_check("broadcast_naive", 0.0, 2.0)
    assert [row(unit)[5].partition(" of ")[0] for unit in (UNIT, OTHER)] == ["10 min", "10 min"]


@pytest.mark.parametrize("content, word", [
    ("{", "cannot be read"), ("[]", "no record"), ('{"course": "another"}', "no record"), ("\0" * 100, "cannot be read"),
    (json.dumps({"course": record.COURSE, "checks": {"a": 1}, "guesses": {}, "times": {}}), "no record"),
    ("[" * 100_000, "cannot be read"),
])
def test_a_broken_or_foreign_file_is_set_aside_with_a_word(course, content, word):
    path = course / record.NAME
    path.write_text(content)
    assert word in repr(progress()) and word in progress()._repr_html_() and path.read_text() == content
    record.note_check("broadcast_naive", 2.0, 2.0)
    assert word not in repr(progress()) and row()[2].startswith("1 of ")
    aside, = course.glob("progress.set-aside-*.json")
    assert aside.read_text() == content


def test_a_record_of_a_later_version_is_kept_as_it_is(course):
    record.note_check("broadcast_naive", 1.0, 2.0)
    path = course / record.NAME
    data = json.loads(path.read_text())
    data["checks"]["broadcast_naive"]["by"] = data["later"] = "a later version"
    path.write_text(json.dumps(data))
    record.note_check("broadcast_tree", 2.0, 2.0)
    again = json.loads(path.read_text())
    assert again["later"] == again["checks"]["broadcast_naive"]["by"] == "a later version"


def test_nothing_is_kept_where_no_unit_is_open_and_nothing_stops_where_nothing_can_be_written(course, monkeypatch):
    monkeypatch.chdir(course)
    record.note_check("broadcast_naive", 2.0, 2.0)
    assert record.path_here() is None and not list(course.rglob(record.NAME)) + list(course.parent.glob(record.NAME))
    assert "in a unit's notebook" in repr(progress())
    monkeypatch.chdir(course / UNIT)
    monkeypatch.setattr(record.os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError("read-only")))
    record.note_check("broadcast_naive", 2.0, 2.0)
    assert row()[2].startswith("0 of ")


def test_a_notebook_that_cannot_be_read_leaves_the_others(course):
    (course / OTHER / f"{OTHER}.ipynb").write_text("{")
    assert [unit.name for unit in progress().units] == [UNIT]


def test_a_check_in_a_notebook_is_noted(course, monkeypatch):
    from grader import checks
    from grader.exercises import EXERCISES

    monkeypatch.setattr(checks, "verdict_on", lambda exercise, fn: Verdict.without_evidence(exercise, "not written yet"))
    with pytest.raises(checks.CheckFailed):
        checks.check.ring_time(lambda: 0)
    assert EXERCISES["ring_time"].max_points == record.read(course / record.NAME)[0]["checks"]["ring_time"]["of"]
