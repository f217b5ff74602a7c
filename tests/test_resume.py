"""Marking can be killed at any moment and called again: nothing lost or twice, no half-written file, the same gradebook."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties

from grader.course import gradebook as writer
from grader.course import journal as journals
from grader.course.autograde import SaveMarks
from grader.course.folder import Course as Folder
from grader.course.folder import Submission
from grader.course.gradebook import keep, register
from grader.course.journal import Busy, Journal, Result, write_whole
from tests.course import SANDBOX, Course
from tests.submissions import SAMPLES, UNIT

pytestmark = [pytest.mark.xdist_group("resume"), pytest.mark.timeout(1800)]
EXERCISE = "ring_time"
KILLS = 5
STUDENTS = {"ann": True, "bob": False}  # and whether they have written anything


# ── the journal ──


def result(student="ann", digest="d", code="c", points=4.0) -> Result:
    verdict = {"points": points, "max_points": 4.0, "problem": "", "hints": [["id", "the hint"]]}
    return Result(student, UNIT, digest, code, nbformat.writes(nbformat.v4.new_notebook()), {"exercises": {"x": verdict}})


def test_a_pending_result_is_used_for_just_its_submission_and_program(tmp_path):
    journal = Journal(tmp_path)
    journal.put(result())
    assert journal.pending("ann", "d", "c") == result()
    assert journal.pending("ann", "other", "c") is None and journal.pending("ann", "d", "other") is None
    assert journal.pending("bob", "d", "c") is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"student": "ann"}'])
def test_a_damaged_journal_means_marking_again(tmp_path, content):
    journal = Journal(tmp_path)
    journal.put(result())
    journal.pending_file("ann").write_text(content)
    assert journal.pending("ann", "d", "c") is None


def test_what_is_kept_belongs_to_one_gradebook(tmp_path):
    journal = Journal(tmp_path)
    journal.note_kept(result(), "sqlite:///a")
    assert journal.is_kept("ann", "d", "sqlite:///a")
    assert not journal.is_kept("ann", "d", "sqlite:///b") and not journal.is_kept("ann", "changed", "sqlite:///a")


def test_no_password_of_a_gradebook_is_written_down(tmp_path):
    Journal(tmp_path).note_kept(result(), "postgresql://me:secret@host/course")
    assert not any("secret" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_one_writer_at_a_time(tmp_path):
    with Journal(tmp_path).alone(), pytest.raises(Busy, match="another autograde is at work"), Journal(tmp_path).alone():
        pass
    with Journal(tmp_path).alone():
        pass


def test_a_file_is_whole_or_not_there(tmp_path, monkeypatch):
    write_whole(tmp_path / "a", "old")
    monkeypatch.setattr(journals.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed")))
    with pytest.raises(OSError, match="killed"):
        write_whole(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old" and os.listdir(tmp_path) == ["a"]


def test_remains_of_one_that_was_killed_are_cleared(tmp_path):
    (tmp_path / "staging" / "x").mkdir(parents=True)
    (tmp_path / "pending").mkdir()
    (tmp_path / "pending" / ".abc.part").write_text("half")
    with Journal(tmp_path).alone():
        assert sorted(os.listdir(tmp_path)) == [".lock", "pending"] and os.listdir(tmp_path / "pending") == []


# ── the writer of the gradebook, stopped at each of its steps ──


class Killed(BaseException):
    """Stands for the end of the process."""


def dump(course: Course) -> dict:
    """All that the gradebook says of everyone."""
    with Folder(f"sqlite:///{course.root / 'gradebook.db'}").gradebook() as book:
        return {s.student.id: {"grades": sorted((g.name, g.auto_score, g.manual_score, g.needs_manual_grade)
                                                for n in s.notebooks for g in n.grades),
                               "comments": sorted((c.name, c.auto_comment or "") for n in s.notebooks for c in n.comments)}
                for s in book.assignment_submissions(UNIT)}


def dies_at(monkeypatch, place, name: str, count: int) -> None:
    """The `count`-th call of place.name ends the process before it does anything."""
    original, calls = getattr(place, name), []

    def wrapped(*arguments, **options):
        calls.append(name)
        if len(calls) == count:
            raise Killed
        return original(*arguments, **options)

    monkeypatch.setattr(place, name, wrapped)


def result_of(submission: Submission) -> Result:
    """As if it had been marked: full points for one exercise, a hint for the other."""
    exercises = {"ring_time": {"points": 2.0, "max_points": 2.0, "problem": "", "hints": []},
                 "fit_alpha_beta": {"points": 0.0, "max_points": 2.0, "problem": "", "hints": [["id", "the hint"]]}}
    return Result(submission.student, UNIT, "d", "c", submission.path.read_text(), {"exercises": exercises})


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return Course(tmp_path_factory.mktemp("course"), UNIT, ["ring_time", "fit_alpha_beta"])


@pytest.mark.parametrize("place, name, count", [
    (writer, "_enter", 1), (writer, "_saved", 1), (SaveMarks, "_add_score", 1), (SaveMarks, "_add_score", 2),
    (SaveMarks, "_add_comment", 2), (AssignLatePenalties, "preprocess", 1),
    (writer.shutil, "copytree", 1), (writer.shutil, "copy", 1), (writer, "_move", 1),
    (writer.os, "replace", 1), (writer.os, "replace", 2),
    (Journal, "note_kept", 1), (journals.os, "unlink", 1), (Journal, "drop", 1),
], ids=lambda value: getattr(value, "__name__", value))
def test_stopped_at_a_step_and_called_again(course, monkeypatch, place, name, count):
    student = f"{name}-{count}"
    course.submit(student, SAMPLES["full"].change)
    (course.root / "submitted" / student / UNIT / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    monkeypatch.chdir(course.root)
    folder = Folder()
    submission, = folder.submissions(UNIT, [student])[0]
    marked = result_of(submission)
    journal = Journal(course.root / "marking" / UNIT)
    journal.put(marked)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        dies_at(patch, place, name, count)
        keep(folder, submission, marked, journal)
        raise Killed  # steps that are not reached a second time
    autograded = course.root / "autograded" / student / UNIT
    for path in (*autograded.glob("*.ipynb"), *autograded.glob("*.json")):
        json.loads(path.read_text())  # whole
    if not journal.is_kept(student, "d", folder.db_url):
        assert journal.pending(student, "d", "c") == marked
    with journal.alone():
        keep(folder, submission, marked, journal)
    assert course.marks()[student] == {"ring_time": 2.0, "fit_alpha_beta": 0.0}
    assert ("fit_alpha_beta", "the hint") in dump(course)[student]["comments"]
    assert sorted(os.listdir(autograded)) == [f"{UNIT}.ipynb", f"{UNIT}.marks.json", "timestamp.txt"]
    assert journal.pending(student, "d", "c") is None and journal.is_kept(student, "d", folder.db_url)


@pytest.mark.parametrize("step", ["add_notebook", "update_or_create_grade_cell", "update_or_create_solution_cell",
                                  "update_or_create_source_cell"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_unit_that_was_entered_by_half_is_entered_again(course, tmp_path, monkeypatch, step, count):
    """Else submissions get no place for what the missing cells earn."""
    monkeypatch.chdir(course.root)
    folder = Folder(f"sqlite:///{tmp_path / 'gradebook.db'}")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        dies_at(patch, Gradebook, step, count)
        register(folder, UNIT)
        raise Killed  # add_notebook is called once
    assert register(folder, UNIT) == (step != "add_notebook" or count == 1)
    assert not register(folder, UNIT)
    with folder.gradebook() as anew, Folder().gradebook() as usual:
        cells, expected = ({cell.name for cell in book.find_notebook(UNIT, UNIT).source_cells} for book in (anew, usual))
        assert cells == expected != set()


def test_a_late_submission_is_penalised_and_a_manual_mark_is_kept(tmp_path, monkeypatch):
    course = Course(tmp_path, UNIT, ["ring_time", "fit_alpha_beta"])
    with open(tmp_path / "grader" / "nbgrader_config.py", "a") as config:
        config.write("\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    for student in ("ann", "bob"):
        course.submit(student, SAMPLES["full"].change)
    (tmp_path / "submitted" / "bob" / UNIT / "timestamp.txt").write_text("2026-01-02 00:00:00 UTC")
    (tmp_path / "solutions" / UNIT / "pictures").mkdir()
    (tmp_path / "solutions" / UNIT / "pictures" / "ring.svg").write_text("<svg/>")
    monkeypatch.chdir(tmp_path)
    folder, journal = Folder(), Journal(tmp_path / "marking" / UNIT)
    with folder.gradebook() as book:
        book.update_or_create_assignment(UNIT, duedate="2026-01-01")
    for _ in range(2):  # the second time over what the first left
        for submission in folder.submissions(UNIT)[0]:
            keep(folder, submission, result_of(submission), journal)
        with folder.gradebook() as book:
            ann, bob = (book.find_submission_notebook(UNIT, UNIT, student) for student in ("ann", "bob"))
            assert (ann.score, ann.late_submission_penalty) == (2.0, None)
            assert (bob.score, bob.late_submission_penalty) == (2.0, 2.0)
            assert book.find_submission(UNIT, "bob").total_seconds_late == 24 * 60 * 60
            assert ann.needs_manual_grade is bob.needs_manual_grade is False
    with folder.gradebook() as book:
        book.find_grade("fit_alpha_beta_check", UNIT, UNIT, "bob").manual_score = 1.5
        book.find_comment("fit_alpha_beta", UNIT, UNIT, "bob").manual_comment = "by hand"
        book.db.commit()
    keep(folder, submission, result_of(submission), journal)
    with folder.gradebook() as book:
        grade = book.find_grade("fit_alpha_beta_check", UNIT, UNIT, "bob")
        assert (grade.auto_score, grade.manual_score, grade.score, grade.needs_manual_grade) == (0.0, 1.5, 1.5, True)
        assert book.find_comment("fit_alpha_beta", UNIT, UNIT, "bob").comment == "by hand"
    autograded = tmp_path / "autograded" / "bob" / UNIT
    assert (autograded / "pictures" / "ring.svg").exists() and (autograded / "timestamp.txt").exists()
    assert (autograded / f"{UNIT}.ipynb").stat().st_mode & 0o777 == 0o444


# ── the whole command, killed at random ──


def class_of_two(folder) -> Course:
    course = Course(folder, UNIT, [EXERCISE])
    for student, filled_in in STUDENTS.items():
        course.submit(student, SAMPLES["full"].change, filled_in)
    return course


@pytest.mark.long
@pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")
def test_killed_at_random_and_resumed_gives_the_same_gradebook(tmp_path, monkeypatch):
    undisturbed, course = class_of_two(tmp_path / "undisturbed"), class_of_two(tmp_path / "killed")
    began = time.monotonic()
    undisturbed.program("grader", "autograde", UNIT)
    whole_s = time.monotonic() - began
    monkeypatch.chdir(course.root)
    chance, marked = random.Random(20_263), set()
    for kill in range(KILLS):
        if kill % 4 == 3:  # from the beginning again, so that every stage is met often
            _forget(course)
            marked.clear()
        printed = _killed_after(course, chance.uniform(0.1, 1.1) * whole_s)
        now = {student for student in STUDENTS if f" {student} " in printed}
        assert not now & marked, "marked twice"
        marked |= {student for student in now if (course.root / "autograded" / student).exists()}
        for path in course.root.rglob("autograded/**/*.*"):
            json.loads(path.read_text())
    course.grader("autograde", UNIT)
    assert dump(course) == dump(undisturbed) and dump(course).keys() == STUDENTS.keys()
    assert not list((course.root / "marking" / UNIT / "pending").glob("*"))


def _killed_after(course: Course, seconds: float) -> str:
    """Start the command and kill it and nothing else; what it printed. All that it started must end by itself."""
    with open(course.root / "printed", "w") as output:
        process = subprocess.Popen([sys.executable, "-m", "grader", "autograde", UNIT], cwd=course.root, stdout=output,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=course.environment())
        started = []
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            started = psutil.Process(process.pid).children(recursive=True) or started
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert psutil.wait_procs(started, timeout=60)[1] == []
    return (course.root / "printed").read_text()


def _forget(course: Course) -> None:
    for folder in ("marking", "autograded"):
        subprocess.run(["rm", "-rf", str(course.root / folder)], check=True)
    (course.root / "gradebook.db").unlink(missing_ok=True)
