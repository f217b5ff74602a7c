"""course.toml: what it says, and what is said of one that says something else."""

import datetime

import pytest

from grader.contracts import Contract
from grader.course.changed import changes, exercise_changes, total_change
from grader.course.course_file import BadCourseFile, LateRule, read

CONTRACTS = {
    "01_collectives": [Contract("reduce", "Reduce", "core", 10, 4), Contract("gather", "Gather", "further", 10, 4),
                       Contract("ring_time", "Time", "core", 10, 2)],
    "02_data_parallel": [Contract("average", "Average", "core", 10, 4)],
}


def course(tmp_path, text: str):
    (tmp_path / "course.toml").write_text(text)
    return read(tmp_path / "course.toml", CONTRACTS)


WHOLE = """
title = "Parallelism"
timezone = "Europe/Berlin"
language = "zh"
withdrawn = ["gather"]

[late]
percent_a_day = 10
most_days = 3

[units.01_collectives]
exercises = "core"
others = "left out"
due = 2027-05-03
points = { reduce = 10 }

[units.02_data_parallel]
due = 2027-05-10T12:00:00+00:00

[extensions]
"Wang Wei" = { 01_collectives = 2027-05-05T10:00:00 }
"""


def test_it_says_what_is_assigned_until_when_and_for_how_many_points(tmp_path):
    found = course(tmp_path, WHOLE)
    first, second = found.units.values()
    assert (first.exercises, first.others, second.exercises) == (("reduce", "ring_time"), "left out", ("average",))
    assert found.due("01_collectives", "ann") == datetime.datetime(2027, 5, 3, 21, 59, 59)
    assert found.due("01_collectives", "7", "Wang Wei") == datetime.datetime(2027, 5, 5, 8)
    assert found.due("02_data_parallel") == datetime.datetime(2027, 5, 10, 12)
    assert (found.language, course(tmp_path, "").language) == ("zh", "en")
    assert [found.points(name, "01_collectives", 4) for name in ("reduce", "gather", "ring_time")] == [10, 0, 4]


@pytest.mark.parametrize("days, left", [(-1, 100), (0, 100), (0.01, 90), (1, 90), (1.5, 80), (3, 70), (3.1, 0)])
def test_what_being_late_costs(days, left):
    assert 100 - LateRule(10, 3).penalty(100, datetime.timedelta(days=days)) == left
    assert LateRule().penalty(100, datetime.timedelta(days=days)) == 0


@pytest.mark.parametrize("text, line, words", [
    ("[units.01_collectivs]", 1, "there is no unit '01_collectivs'"),
    ("[units.01_collectivs]", 1, "Did you mean '01_collectives'?"),
    ("# reduse\n[units.01_collectives]\nexercises = [\"reduse\"]", 3, "Did you mean 'reduce'?"),
    ("[units.01_collectives]\nexercises = \"cores\"", 2, "expected \"core\", \"all\" or a list of names, found 'cores'"),
    ("[units.01_collectives]\nexercises = [\"reduce\"]\npoints = { gather = 3 }", 3, "no assigned exercise of 01_c"),
    ("[units.01_collectives]\npoints = { reduce = -1 }", 2, "a number that is 0 or more, found -1"),
    ("[units.01_collectives]\ndue = \"next week\"", 2, "a day or a time without quotation marks"),
    ("[units.01_collectives]\ndeadline = 2027-05-03", 2, "[units.01_collectives] has no 'deadline'"),
    ("titel = \"moodel\"", 1, "Did you mean 'title'?"),
    ("[units.01_collectives]\ndue = 2027-05-03\n[units.02_data_parallel]\ndue = 3", 4, "a day or a time"),
    ("timezone = \"Europe/Berln\"", 1, "Did you mean 'Europe/Berlin'?"),
    ("language = \"chinese\"", 1, "language: expected 'en' or 'zh', found 'chinese'"),
    ("language = \"zhh\"", 1, "Did you mean 'zh'?"),
    ("withdrawn = \"reduce\"", 1, "expected a list of names"), ("late = 3", 1, "late: expected a table"),
    ("[late]\npercent_a_day = true", 2, "a number that is 0 or more, found True"),
    ("[extensions]\nann = 2027-05-05", 2, "an extension is expected as"),
    ("title = \"x\"\n[late]\n[extensions]\nwithdrawn = [\"reduce\"]", 4,
     "withdrawn belongs above the first table, which is [late]"),
    ("[units.01_collectives]\nwithdrawn = [\"reduce\"]", 2, "above the first table, which is [units.01_collectives]"),
    ("[extensions]\nann = { 03_zero1 = 2027-05-05 }", 2, "no such unit"), ("title = 3", 1, "expected a text"),
])
def test_a_bad_one_is_refused_with_its_line_and_what_was_expected(tmp_path, text, line, words):
    with pytest.raises(BadCourseFile) as caught:
        course(tmp_path, text)
    assert f"course.toml, line {line}: " in str(caught.value) and words in str(caught.value)


def test_each_change_since_the_last_release_is_told_and_nothing_else(tmp_path):
    before = course(tmp_path, WHOLE)
    assert list(changes(before, before)) == []
    now = course(tmp_path, WHOLE.replace("2027-05-03", "2027-05-04").replace("left out", "solved").replace(
        "percent_a_day = 10", "percent_a_day = 20").replace('withdrawn = ["gather"]', 'withdrawn = ["reduce"]').replace(
        '"Wang Wei"', '"Wang Li"').replace("[units.02_data_parallel]\ndue = 2027-05-10T12:00:00+00:00", ""))
    assert list(changes(before, now)) == [
        "due date of 01_collectives: 03 May 2027, 23:59 (Europe/Berlin) → 04 May 2027, 23:59 (Europe/Berlin)",
        "other exercises of 01_collectives: left out → solved", "02_data_parallel: no longer assigned",
        "being late: costs 10 % a day, everything after 3 days → costs 20 % a day, everything after 3 days",
        "extension of Wang Wei in 01_collectives: 05 May 2027, 10:00 (Europe/Berlin) → none",
        "extension of Wang Li in 01_collectives: none → 05 May 2027, 10:00 (Europe/Berlin)",
        "reduce: withdrawn from now on", "gather: no longer withdrawn"]
    assert list(changes(now, before))[2] == "02_data_parallel: assigned for the first time"
    assert list(exercise_changes({"a": 1, "b": 2}, {"b": 3, "c": 1})) == [
        "c: asked for from now on", "a: no longer asked for", "b: 2 → 3 points"]
    assert [*total_change("u", {"a": 1, "b": 2}, {"a": 2, "b": 1})] == []
    assert "u: 3 → 1 points in all. Set the assignment's maximum grade on the platform to 1" in (
        next(total_change("u", {"a": 1, "b": 2}, {"a": 1, "b": 0})))


def test_what_is_no_toml_is_said_with_its_place(tmp_path):
    with pytest.raises(BadCourseFile, match=r"at line 2, column \d+.*quotation marks"):
        course(tmp_path, "[units.01_collectives]\nexercises = core")
