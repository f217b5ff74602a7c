"""`python -m grader autograde`: the same marks however it is run, nothing lost, nothing twice, and words for what is odd."""

import contextlib
import copy
import errno
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import threading
from types import SimpleNamespace

import nbformat
import pytest
from nbgrader.api import Gradebook, InvalidEntry
from sqlalchemy.exc import DataError, OperationalError

from grader.course import batch, files, pool
from grader.course import folder as folders
from grader.course.again import ANEW
from grader.course.batch import LONGEST_ALARM, in_short, ticking
from grader.course.folder import time_of
from grader.course.journal import Journal, Result
from grader.course.mark import left_unmarked
from tests.course import Course, check_cell, solution_cell, verdict_text
from tests.submissions import CHOSEN, MARKS, SAMPLES, UNIT, hand_in

pytestmark = [pytest.mark.xdist_group("batch"), pytest.mark.timeout(600)]
FULL = MARKS["full"]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course with three submissions, an empty folder, and what marking them printed."""
    course = Course(tmp_path_factory.mktemp("batch"), UNIT, CHOSEN)
    hand_in(course, {student: SAMPLES[student] for student in MARKS})
    return course, course.grader("autograde", UNIT)


@pytest.mark.long
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


def test_cases_can_be_those_of_the_last_time_or_of_a_number(quick):
    course, sent = quick
    assert autograde(course)[0] == 0 and sent["ann"].again == ANEW
    record = course.root / "autograded" / "ann" / UNIT / f"{UNIT}.marks.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"seed": 77}))
    assert autograde(course, "--regrade", "--same-cases")[0] == 0 and (
        sent["ann"].again.seed, sent["zoe"].again.seed) == (77, 0)
    assert autograde(course, "--regrade", "--seed", "5")[0] == 0 and {task.again.seed for task in sent.values()} == {5}


def test_one_exercise_is_marked_again_and_the_others_keep_their_marks(tmp_path, monkeypatch):
    """For whoever is marked as she handed in; what is put beside the others is its points, verdict, cases and alarms."""
    course, earned = Course(tmp_path, UNIT, CHOSEN), dict.fromkeys(CHOSEN, 4.0)
    gather, reduce = CHOSEN

    def mark_all(_, tasks, unsafe):
        for task in tasks:
            notebook, record = left_unmarked(task.released, f"as {earned}")
            record |= {"seed": 7 if task.again.seed is None else task.again.seed, "seeds": dict(task.again.seeds),
                       "alarms": [{"kind": "other alarms", "about": name, "text": f"{name} {earned}"} for name in CHOSEN]}
            for name in CHOSEN:
                record["exercises"][name]["points"] = earned[name]
            notebook = nbformat.reads(notebook.decode(), as_version=4)
            for name in CHOSEN:
                check_cell(notebook, name).outputs = [nbformat.v4.new_output("display_data", {"text/plain": str(earned)})]
            yield task.name, (nbformat.writes(notebook).encode(), record)

    monkeypatch.setattr(pool.Pool, "mark_all", mark_all)
    course.submit("ann", SAMPLES["full"].change)
    course.grader("autograde", UNIT)
    course.submit("zoe", SAMPLES["full"].change)  # later, and not marked yet
    earned = dict.fromkeys(CHOSEN, 3.0)
    code, printed = autograde(course, "--exercise", gather, "--seed", "9")
    assert code == 1 and f"ann                  {gather}              4 → 3" in printed and f"{reduce} " not in printed
    assert "zoe/01_collectives is not marked yet, or it or the released notebook has changed since: mark all" in printed
    assert course.marks() == {"ann": {gather: 3.0, reduce: 4.0}}
    record = json.loads((tmp_path / "autograded" / "ann" / UNIT / f"{UNIT}.marks.json").read_text())
    assert (record["seed"], record["seeds"]) == (7, {gather: 9})
    assert [alarm["text"] for alarm in record["alarms"]] == [f"{reduce} {dict.fromkeys(CHOSEN, 4.0)}", f"{gather} {earned}"]
    notebook = course.autograded("ann")
    assert "3.0" in verdict_text(notebook, gather) and "4.0" in verdict_text(notebook, reduce)
    autograde(course, "--student", "ann", "--exercise", gather, "--same-cases")
    assert json.loads((tmp_path / "autograded" / "ann" / UNIT / f"{UNIT}.marks.json").read_text())["seeds"] == {gather: 9}
    assert "1 unchanged" in autograde(course)[1]
    code, printed = autograde(course, "--exercise", "ring_all_gathr")
    assert code == 2 and "Did you mean 'ring_all_gather'?" in printed


def test_a_submission_s_line_is_about_what_was_asked_for():
    record = {"exercises": {"reduce": {"points": 0, "max_points": 4}, "ring_time": {"points": 2, "max_points": 2}},
              "seconds": 9.4, "alarms": [{"text": "it breaks off: " + "x" * LONGEST_ALARM}]}
    look = f"look: it breaks off: {'x' * (LONGEST_ALARM - 17)}…"
    assert in_short(record) == f"2/6 points  9 s  1 exercise not full  {look}"
    assert in_short(record, ("ring_time",)) == f"ring_time 2/2 points  9 s  {look}"


def test_the_bar_s_clock_goes_on_while_nothing_is_done():
    ticks, fifth = [], threading.Event()
    bar = SimpleNamespace(disable=False, refresh=lambda: (ticks.append(1), len(ticks) >= 5 and fifth.set()))
    with ticking(bar, every_s=0.001):
        assert fifth.wait(60)


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
        assert re.search(r"somebody worked in cell \d+ \(“def ring_all_gather", caught.value.stdout + caught.value.stderr)
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


# ── one submission stops no other ──

GOOD = ("ann", "zoe")
LATIN_1 = os.fsdecode(b"M\xfcller")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A course of one exercise with two good submissions."""
    course = Course(tmp_path_factory.mktemp("small"), UNIT, ["ring_time"])
    for student in GOOD:
        course.submit(student, SAMPLES["full"].change)
    return course


@pytest.fixture
def quick(small, tmp_path, monkeypatch):
    """A copy of it, where marking itself takes no time; and what was to be marked."""
    course, sent = copy.copy(small), {}
    course.root = shutil.copytree(small.root, tmp_path / "course")

    def mark_all(_, tasks, unsafe):
        for task in tasks:
            sent[task.name[0].submission.student] = task
            yield task.name, left_unmarked(task.released, "only a test")

    monkeypatch.setattr(pool.Pool, "mark_all", mark_all)
    return course, sent


def place(course: Course, student: str):
    """A student's folder of the unit, made."""
    made = course.root / "submitted" / student / UNIT
    made.mkdir(parents=True)
    return made


def autograde(course: Course, *arguments: str) -> tuple[int, str]:
    """(exit code, what was printed)"""
    try:
        return 0, course.grader("autograde", UNIT, *arguments)
    except subprocess.CalledProcessError as error:
        return error.returncode, error.stdout + error.stderr


def hand_in_oddly(course: Course) -> dict[str, str]:
    """Everything that can lie in a folder of submissions and is none; student → the words for it."""
    notebook, name = course.root / "submitted" / "ann" / UNIT / f"{UNIT}.ipynb", f"{UNIT}.ipynb"
    solution = course.root / "solutions" / UNIT / name
    (place(course, "broken link") / name).symlink_to("nowhere")
    (place(course, "link to the solution") / "x.ipynb").symlink_to(solution)
    (place(course, "link to zeros") / name).symlink_to("/dev/zero")
    os.mkfifo(place(course, "pipe") / "x.ipynb")
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(place(course, "socket")):  # its whole path is too long
        made.bind(name)
    (place(course, "folder") / name / "inner").mkdir(parents=True)
    make_sparse(place(course, "sparse") / name)
    place(course, "empty")
    (place(course, "other files") / "answers.txt").write_text("42")
    deep = place(course, "deep")
    for part in ["d" * 200] * 15:
        deep /= part
        deep.mkdir()
    shutil.copy(notebook, place(course, LATIN_1))
    (course.root / "submitted" / "nested" / "work" / UNIT).mkdir(parents=True)
    (course.root / "submitted" / "nothing at all").mkdir()
    (course.root / "submitted" / "file").write_text("no folder")
    (course.root / "submitted" / ".hidden").write_text("of some program")
    (course.root / "submitted" / "__MACOSX" / "ann").mkdir(parents=True)
    (course.root / "submitted" / "unit is a file").mkdir()
    (course.root / "submitted" / "unit is a file" / UNIT).write_text("no folder")
    (course.root / "submitted" / "linked").symlink_to("ann")
    (course.root / "submitted" / "unit is a link").mkdir()
    (course.root / "submitted" / "unit is a link" / UNIT).symlink_to(f"../ann/{UNIT}")
    return {"broken link": "is a symbolic link", "link to the solution": "is a symbolic link", "link to zeros": "symbolic",
            "pipe": "is a named pipe", "socket": "is a socket", "folder": "is a folder, and a regular file was expected",
            "sparse": "has 5,120 MiB, more than the 64 MiB", "empty": "it holds nothing", "deep": "(a folder)",
            "other files": "it holds answers.txt", "nested": "(it holds work (a folder)): submissions belong at",
            "M\ufffdller": "it reads 'Müller'",
            "file": "is a regular file, and the folder of a student was expected",
            "unit is a file": "is a regular file, and a folder was expected",
            "linked": "is a symbolic link, and the folder of a student was expected",
            "unit is a link": "is a symbolic link, and a folder was expected"}


def test_whatever_lies_there_the_others_are_marked_on_every_run(quick):
    course, sent = quick
    said = hand_in_oddly(course)
    odd = ["n" * 252, "=1+1", "new\nline", "red \x1b[31m \u202e", "'quoted\"", "{braces}", "[a]*", " ", "-rf"]
    for student in odd:
        course.submit(student, SAMPLES["full"].change)
    for run in range(3):
        code, printed = autograde(course)
        assert code == 1 and set(course.marks()) == {*GOOD, *odd} == set(sent)
        assert not {"\x1b", "\u202e"} & set(printed) and f"{len(said)} could not be marked." in printed
        for student, words in said.items():
            line, = [line for line in printed.split("\n") if f"submitted/{student}" in line]
            assert words in line
        assert ("11 marked in" if run == 0 else "11 unchanged") in printed
    assert os.listdir(course.root / "marking" / UNIT / "pending") == []


def test_a_file_that_goes_or_may_not_be_read_is_named(quick, monkeypatch):
    course, sent = quick
    course.submit("closed", SAMPLES["full"].change)
    opened = os.open

    def open_most(path, flags, *arguments, **options):
        if path == f"{UNIT}.ipynb" and "closed" in os.readlink(f"/proc/self/fd/{options['dir_fd']}"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr(files.os, "open", open_most)
    tasks = batch._tasks

    def gone(jobs, *rest):
        shutil.rmtree(course.root / "submitted" / "zoe")
        return tasks(jobs, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(batch, "_tasks", gone)
        code, printed = autograde(course)
    assert code == 1 and set(course.marks()) == {"ann"} == set(sent)
    assert f"{UNIT}.ipynb cannot be read by you: change its permissions" in printed
    assert "zoe/01_collectives could not be read: " in printed and "is not there" in printed
    course.submit("zoe", SAMPLES["full"].change)
    assert "1 of 2 are marked; 1 left." in autograde(course)[1] and set(course.marks()) == set(GOOD)


def _refuse(student, error):
    """A gradebook that does not take one student."""
    original = Gradebook.update_or_create_student

    def update(self, name, **facts):
        if name == student:
            raise error
        return original(self, name, **facts)

    return update


@pytest.mark.parametrize("error", [
    InvalidEntry("no such name"), DataError("INSERT", {}, ValueError("value too long")), OSError("odd name")], ids=repr)
def test_a_result_that_cannot_be_kept_is_named_and_does_not_come_back(quick, monkeypatch, error):
    course, sent = quick
    with monkeypatch.context() as patch:
        patch.setattr(Gradebook, "update_or_create_student", _refuse("ann", error))
        for _ in range(2):
            sent.clear()
            code, printed = autograde(course)
            assert code == 1 and "ann/01_collectives was marked, but its marks could not be kept: " in printed
            assert set(course.marks()) == {"zoe"} and "ann" in sent
            assert os.listdir(course.root / "marking" / UNIT / "pending") == []
    assert autograde(course)[0] == 0 and set(course.marks()) == set(GOOD)


@pytest.mark.parametrize("error, words", [
    (OperationalError("INSERT", {}, sqlite3.OperationalError("database is locked")), "cannot be used (database is locked)"),
    (OSError(errno.ENOSPC, "No space left on device"), "No space left on device")], ids=["locked", "full"])
def test_what_would_meet_everybody_stops_with_a_sentence_and_goes_on_later(quick, monkeypatch, error, words):
    course, sent = quick
    with monkeypatch.context() as patch:
        patch.setattr(Gradebook, "update_or_create_student", _refuse("ann", error))
        code, printed = autograde(course)
    assert code == 2 and "Nothing more was marked: " in printed and words in printed and "Traceback" not in printed
    sent.clear()
    code, printed = autograde(course)
    assert code == 0 and "1 of 2 are marked; 1 left." in printed and set(sent) == {"zoe"}
    assert set(course.marks()) == set(GOOD)


@pytest.mark.parametrize("spoil", [
    lambda result: "[" * 100_000, lambda result: json.dumps(result | {"notebook": "no notebook"}),
    lambda result: json.dumps(result | {"record": {"exercises": {"ring_time": 3}}}), lambda result: None],
    ids=["no JSON", "no notebook", "no record", "a folder"])
def test_a_spoiled_journal_stops_nobody(quick, monkeypatch, spoil):
    course, _ = quick
    with monkeypatch.context() as patch:
        patch.setattr(batch, "keep", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert autograde(course)[0] == 130
    pending = Journal(course.root / "marking" / UNIT).pending_file("ann")
    spoiled = spoil(json.loads(pending.read_text()))
    pending.unlink()
    pending.mkdir() if spoiled is None else pending.write_text(spoiled)
    codes = [autograde(course)[0] for _ in range(3)]
    assert codes[-1] == (1 if spoiled is None else 0) and "zoe" in course.marks()
    assert set(course.marks()) == (set(GOOD) if spoiled is not None else {"zoe"})


def test_a_journal_of_an_earlier_version_is_taken_over(tmp_path):
    """It named its files by students."""
    journal = Journal(tmp_path)
    journal.note_kept(Result("ann", UNIT, "d", "c", "", {}), "sqlite:///a")
    new, = (tmp_path / "kept").iterdir()
    new.rename(tmp_path / "kept" / "ann.json")
    with journal.alone():
        assert journal.is_kept("ann", "d", "sqlite:///a")


# ── several notebooks ──


def written(place, **contents: str):
    """Notebooks in a folder, the first the oldest."""
    place.mkdir(parents=True, exist_ok=True)
    for age, (name, content) in enumerate(contents.items()):
        (place / f"{name}.ipynb").write_text(content)
        os.utime(place / f"{name}.ipynb", (age, age))
    return place


@pytest.mark.parametrize("names, first, others, words", [
    (["x"], "x", [], ["the file is called x.ipynb, which is fine: it counts under any name"]),
    (["01_collectives", "a", "b"], "01_collectives", ["b", "a"], []),
    (["01_collectives-Copy1", "a", "b"], "01_collectives-Copy1", ["b", "a"], []),
    (["01 Collectives (2)", "z"], "01 Collectives (2)", ["z"], []),
    (["a", "b"], "b", ["a"], []),
    (["01_collectives", *"abcde"], "01_collectives", ["e", "d", "c"], [
        "further notebooks were handed in and not read: b.ipynb, a.ipynb"]),
], ids=["renamed", "beside", "copy", "by a platform", "guessed", "many"])
def test_the_notebook_that_is_marked_first_and_the_others(tmp_path, names, first, others, words):
    place = written(tmp_path / "ann" / UNIT, **{name: name for name in names})
    (place / "._01_collectives.ipynb").write_text("of a Mac")
    (place / ".ipynb_checkpoints").mkdir()
    submission = folders.submission_in(place, tmp_path, "ann", UNIT)
    assert (submission.path.stem, [path.stem for path in submission.others]) == (first, others)
    assert list(submission.found) == words
    assert submission.contents() == (first.encode(), tuple((f"{name}.ipynb", name.encode()) for name in others))


def test_what_cannot_be_read_beside_a_notebook_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "MAX_BYTES", 10)
    place = written(tmp_path / "ann" / UNIT, **{UNIT: "12345", "large": "x" * 11, "half": "123456", "small": "1234"})
    (place / "link\n.ipynb").symlink_to(f"{UNIT}.ipynb")
    (place / "timestamp.txt").symlink_to("/dev/zero")
    submission = folders.submission_in(place, tmp_path, "ann", UNIT)
    assert submission.contents() == (b"12345", (("small.ipynb", b"1234"),))
    assert [remark.split(":")[0] for remark in submission.found] == [
        "large.ipynb has 11 bytes, more than the 10 bytes that are read",
        "link\ufffd.ipynb is a symbolic link, and a regular file was expected",
        "further notebooks were handed in and not read",
        "timestamp.txt is a symbolic link, and a regular file was expected"]


def test_all_that_was_handed_in_is_sent_and_a_change_of_any_marks_again(quick):
    course, sent = quick
    written(course.root / "submitted" / "ann" / UNIT, draft="one")
    assert autograde(course)[0] == 0
    assert sent["ann"].others == (("draft.ipynb", b"one"),) and sent["ann"].called == f"{UNIT}.ipynb"
    assert "2 unchanged" in autograde(course)[1]
    written(course.root / "submitted" / "ann" / UNIT, draft="two")
    assert "1 of 2 are marked; 1 left." in autograde(course)[1] and sent["ann"].others == (("draft.ipynb", b"two"),)


def make_sparse(path):
    path.touch()
    os.truncate(path, 5 << 30)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, make_sparse])
def test_a_time_of_handing_in_that_is_no_small_file_is_named(tmp_path, make):
    make(tmp_path / "timestamp.txt")
    when, remark = time_of(tmp_path)
    assert when is None and remark.startswith("timestamp.txt ")
