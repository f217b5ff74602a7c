"""Reports: every lost point has a reason that can be found, whatever the records hold; nothing of a student's runs."""

import csv
import functools
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from grader.__main__ import main
from grader.course.alarms import CONTAINED, CONTRADICTED, MALFORMED, OTHER, UNUSUAL, Alarm
from grader.course.mark import FOR_A_PERSON
from grader.course.splice import is_solution, name_of
from grader.evidence.evidence import DEADLOCKED, RAISED, RETURNED, SKELETON_ERROR, Evidence
from grader.exercises import EXERCISES
from grader.judging.judge import judge
from grader.judging.needs import NOT_CROSSED
from grader.judging.verdict import Verdict
from grader.report.figure import points_figure
from grader.report.files import exercise_rows, submission_rows
from grader.report.page import page
from grader.report.records import Submission, read_outcome, read_record
from grader.report.tally import ALIKE, NOT_MARKED, summarise
from grader.report.terminal import as_text
from utils.trace.trace import Trace
from utils.words import columns

ROOT = Path(__file__).resolve().parent.parent
UNIT = "01_collectives"
NAMES = [name for name, exercise in EXERCISES.items() if exercise.unit == UNIT]
RING = "ring_all_reduce"

# ── records ──


@functools.cache
def verdict(name: str, how: str) -> Verdict:
    """The judge on evidence made up, without messages: right, mean, eighth, talks, raised, deadlock, blank or nothing."""
    technique = EXERCISES[name].technique
    asked = tuple(demand for demand in technique.demands if demand.id != NOT_CROSSED)
    exercise = replace(EXERCISES[name], technique=replace(technique, demands=asked))
    trials = exercise.trials(0, grading=False)
    if how == "nothing":
        return Verdict.without_evidence(exercise, "Nothing to judge: the solution cell is missing.")
    endings = {"raised": (RAISED, "rank 0: IndexError: index 1 is out of bounds", "IndexError"),
               "deadlock": (DEADLOCKED, "ranks 0 and 1 wait for a call that can never come.", "everyone waits"),
               "blank": (RAISED, SKELETON_ERROR, SKELETON_ERROR)}
    ending, error, kind = endings.get(how, (RETURNED, "", ""))
    factor = {"mean": lambda n: 1 / n, "eighth": lambda n: 0.125}.get(how, lambda n: 1)
    return judge(exercise, trials, [
        Evidence([_times(right, factor(len(trial.case.members(rank)))) for rank, right in enumerate(trial.right)], ending,
                 Trace(trial.case.world_size), error, kind, loopback_bytes=(1 << 30) if how == "talks" else None)
        for trial in trials])


def _times(value, factor):
    if isinstance(value, (tuple, list)):
        return type(value)(_times(one, factor) for one in value)
    return value if value is None or isinstance(value, str) else value * factor


def record(how: dict[str, str], **more) -> dict:
    """What marking writes for one submission; exercise -> how it went."""
    exercises = {name: verdict(name, one).record() for name, one in how.items()}
    facts = {"seed": 1, "remarks": [], "alarms": [], "peak_bytes": 512 << 20, "seconds": 20.5, "exercises": exercises}
    return json.loads(json.dumps(facts | more))


def alarm(kind: str, text: str, about: str = "") -> dict:
    return asdict(Alarm(kind, text, about))


def submission(student: str, facts: dict) -> Submission:
    return read_record(student, facts)


# ── a course folder with marked submissions ──


class Folder:
    """As a course is after marking."""

    def __init__(self, root: Path):
        self.root = root
        (root / "grader").mkdir()
        shutil.copy(ROOT / "nbgrader_config.py", root)
        shutil.copy(ROOT / "grader" / "nbgrader_config.py", root / "grader")
        for unit in ("00_start_here", UNIT):
            (root / "notebooks" / unit).mkdir(parents=True)
            shutil.copy(ROOT / "notebooks" / unit / f"{unit}.ipynb", root / "notebooks" / unit)
        self.released = (root / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text()

    def hand_in(self, student: str) -> None:
        self._in("submitted", student).joinpath(f"{UNIT}.ipynb").write_text(self.released)

    def mark(self, student: str, content: dict | str, sources: dict[str, str] | None = None) -> None:
        """A record (or what stands for one) and the marked notebook with these solutions."""
        self.hand_in(student)
        notebook = nbformat.reads(self.released, as_version=4)
        for cell in notebook.cells:
            if is_solution(cell):
                cell.source = (sources or {}).get(name_of(cell), cell.source)
        folder = self._in("autograded", student)
        nbformat.write(notebook, folder / f"{UNIT}.ipynb")
        (folder / f"{UNIT}.marks.json").write_text(content if isinstance(content, str) else json.dumps(content))

    def file(self, name: str) -> Path:
        return self.root / "reports" / UNIT / name

    def submissions(self) -> dict[str, dict[str, str]]:
        with open(self.file("submissions.csv"), newline="", encoding="utf-8") as stream:
            return {row["student"]: row for row in csv.DictReader(stream)}

    def _in(self, step: str, student: str) -> Path:
        folder = self.root / step / student / UNIT
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # nbgrader puts the current folder there
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))  # nbgrader: alembic
    return Folder(tmp_path)


class Reader(HTMLParser):
    """The page's tags and text."""

    def __init__(self, content: str):
        super().__init__()
        self.tags, self.text, self.links, self.ids = [], "", set(), set()
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links |= {value[1:] for name, value in attributes if name == "href"}
        self.ids |= {value for name, value in attributes if name == "id"}

    def handle_data(self, data):
        self.text += data


# ── the command ──


def test_the_report_of_a_small_class(folder, capsys):
    folder.mark("ann", record({RING: "right", "reduce": "right"}))
    folder.mark("bo", record({RING: "mean", "reduce": "deadlock"}, seconds=95.0, remarks=["the file is not UTF-8"]))
    folder.mark("cy", record({RING: "mean", "reduce": "blank"}, alarms=[
        alarm(CONTAINED, "contained while the cells ran: out of memory")]))
    folder.hand_in("dee")
    assert main(["report", UNIT]) == 0
    told = capsys.readouterr().out
    assert "4 submissions, 3 marked" in told and "2 of 3: mean for sum — " in told
    assert "median 20, longest 95 (bo)" in told
    assert "cy: contained while the cells ran: out of memory" in told and "dee: handed in, but not marked" in told
    rows = folder.submissions()
    assert (rows["bo"]["points"], rows["bo"]["max_points"], rows["bo"]["peak_MiB"]) == ("0.0", "8.0", "512")
    assert rows["ann"][f"{RING} reason"] == "" and rows["bo"][f"{RING} reason"].startswith("mean for sum: ")
    assert rows["cy"]["reduce reason"].startswith("not written yet") and rows["dee"]["state"] == "handed in, but not marked"
    assert all(name in told for name in ("exercises.csv", "submissions.csv", "points.png", "report.html"))
    assert "No marks.csv: there is no gradebook yet" in told and not (folder.root / "gradebook.db").exists()
    assert all(folder.file(name).stat().st_size for name in ("exercises.csv", "points.png", "report.html"))


def test_the_command_line_works_from_the_course_folder(folder):
    folder.mark("ann", record({RING: "right"}))
    done = subprocess.run([sys.executable, "-m", "grader", "report", UNIT, "--out", "here"], cwd=folder.root, text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    assert "1 submission, 1 marked" in done.stdout and (folder.root / "here" / "report.html").exists()
    assert max(sum(map(columns, line)) for line in done.stdout.split("\n")) <= 80


def test_a_wrong_unit_is_answered_with_those_there_are(folder, capsys):
    assert main(["report", "1_collectives"]) == 2
    assert "Units: 00_start_here, 01_collectives." in capsys.readouterr().err


@pytest.mark.parametrize("student, records", [(None, {}), ("ann", {"ann": None}), ("ann", {"ann": "{"})],
                         ids=["empty class", "not marked", "broken only"])
def test_without_records_the_next_step_is_named(folder, capsys, student, records):
    for name, content in records.items():
        folder.hand_in(name)
        if content is not None:
            folder.mark(name, content)
    assert main(["report", UNIT]) == 1
    told = capsys.readouterr().err
    assert f"python -m grader autograde {UNIT}" in told and (student is None or student in told)


def test_one_student_alone(folder, capsys):
    folder.mark("ann", record({RING: "right"}))
    folder.mark("bo", record({RING: "raised"}, remarks=["cell 3 was slow"], alarms=[alarm(CONTAINED, "out of memory")]))
    assert main(["report", UNIT, "--student", "bo"]) == 0
    told = capsys.readouterr().out
    assert "1 submission, 1 marked" in told and f"{RING} (0 of 4): " in told and "ann" not in told
    assert "Remark: cell 3 was slow" in told and "Contained: out of memory" in told
    assert not folder.file("report.html").exists()
    assert main(["report", UNIT, "--student", "e*"]) == 2
    assert "e*" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"exercises": []}', "[" * 100_000, "\x00", '{"exercises": '],
                         ids=range(8))
def test_a_broken_record_is_named_and_not_fatal(folder, capsys, content):
    folder.mark("ann", record({RING: "right"}))
    folder.mark("bo", content)
    assert main(["report", UNIT]) == 0
    assert f"bo: the record {UNIT}.marks.json" in capsys.readouterr().out
    assert "record" in folder.submissions()["bo"]["state"] and "bo" in folder.file("report.html").read_text()


def test_a_marked_notebook_that_cannot_be_read_is_named(folder, capsys):
    folder.mark("ann", record({RING: "right"}))
    (folder.root / "autograded" / "ann" / UNIT / f"{UNIT}.ipynb").write_text('{"cells": 3}')
    assert main(["report", UNIT]) == 0
    assert "ann: the marked notebook cannot be read" in capsys.readouterr().out


def test_marks_are_what_nbgrader_exports(folder, capsys):
    folder.mark("ann", record({RING: "right"}))
    with Gradebook(f"sqlite:///{folder.root / 'gradebook.db'}", "many-ranks-one-loss") as gradebook:
        for unit in (UNIT, "00_start_here"):
            gradebook.add_assignment(unit, duedate="2027-01-01")
            gradebook.add_notebook(unit, unit)
        for student in ("ann", "Łukasz", '=HYPERLINK("http:x";"y"),\n@1'):
            gradebook.add_student(student, first_name="A", last_name="Ö", email=f"{student}@example.org")
        gradebook.add_submission(UNIT, "ann", timestamp=datetime(2026, 12, 1, tzinfo=UTC))
    assert main(["report", UNIT]) == 0
    assert "marks.csv" in capsys.readouterr().out
    subprocess.run([sys.executable, "-m", "nbgrader", "export", "--assignment", f"['{UNIT}']", "--to", "theirs.csv"],
                   cwd=folder.root, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert folder.file("marks.csv").read_bytes() == (folder.root / "theirs.csv").read_bytes()
    with open(folder.file("marks.csv"), newline="", encoding="utf-8") as stream:
        rows = {row["student_id"]: row for row in csv.DictReader(stream)}
    assert set(rows) == {"ann", "Łukasz", '\'=HYPERLINK("http:x";"y"),\n@1'}
    assert {row["assignment"] for row in rows.values()} == {UNIT} and rows["ann"]["timestamp"] == "2026-12-01 00:00:00"


def test_marks_are_those_of_the_unit_s_own_students(folder):
    folder.mark("ann", record({RING: "right"}))
    with Gradebook(f"sqlite:///{folder.root / 'gradebook.db'}", "many-ranks-one-loss") as gradebook:
        gradebook.add_assignment(UNIT, duedate="2027-01-01")
        for student in ("ann", "bo@x.org", "1000009"):
            gradebook.add_student(student)
    kept = folder.root / "collected" / UNIT
    kept.mkdir(parents=True)
    (kept / "roster.csv").write_text("\ufeffIdentifier,Full name,Email address,Grade\nParticipant 1000002,Bo Li,bo@x.org,\n")
    assert main(["report", UNIT]) == 0
    with open(folder.file("marks.csv"), newline="", encoding="utf-8") as stream:
        assert [row["student_id"] for row in csv.DictReader(stream)] == ["ann", "bo@x.org"]


# ── hostile and odd content ──

STRANGE = ["<script>", "<script>alert(1)<", "Zoë 李小龍", "=1+1",
           "a;b,c\"d'", "$x^2$", "rtl \u202e name", "tab\tand\x1b[31mred", "&amp;"]


def test_names_and_words_of_any_kind_run_nothing(folder, capsys):
    facts = record({RING: "mean"}, alarms=[alarm(OTHER, "<script>alert(2)</script> & \x1b]0;title\x07")],
                   remarks=["=cmd|' /C calc'!A0"])
    facts["exercises"][RING]["title"] = "<img src=x onerror=alert(3)>"
    facts["exercises"][RING]["hints"] = [["<b>$\\frac{$", "$\\frac{$ <script>"]]
    for student in STRANGE:
        folder.mark(student, facts)
    assert main(["report", UNIT]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told and "\x07" not in told and "\u202e" not in told
    content = folder.file("report.html").read_text()
    shown = Reader(content)
    assert not {"script", "b>"} & set(shown.tags) and shown.tags.count("img") == 1 and "\x1b" not in content
    assert "<script>alert(1)<" in shown.text and "Zoë 李小龍" in shown.text and "<script>alert(2)" in shown.text
    assert shown.links <= shown.ids
    rows = folder.submissions()
    assert set(rows) == {*STRANGE, "'=1+1"} - {"=1+1"} and rows["&amp;"]["remarks"].startswith("'=")


def test_requests_are_listed_with_the_command_that_replays_them(folder, capsys):
    folder.mark("o'neil", record({RING: "mean"}))
    place = folder.root / "requests" / UNIT
    place.mkdir(parents=True)
    (place / "o'neil.txt").write_text(f"Exercise: {RING}\nIt is <b>right</b>.\nExercise: reduce\nx\nAnswer: Yes.")
    (place / "bo.txt").write_text(f"Exercise: {RING}\nx")
    folder.mark("zoe", record({RING: "right"}))
    (place / "zoe.txt").symlink_to("/etc/passwd")
    (place.parent / "1_collectives").mkdir()
    assert main(["report", UNIT]) == 0
    told, shown = " ".join(capsys.readouterr().out.split()), Reader(folder.file("report.html").read_text())
    assert "(1 open, 1 answered)" in told and f"o'neil, {RING}, 0 of 4 points: It is <b>right</b>." in told
    command = f"python -m grader autograde {UNIT} --student 'o'\"'\"'neil' --exercise {RING} --same-cases"
    assert command in told and command in shown.text and "It is <b>right</b>." in shown.text and "Answer: Yes." in shown.text
    assert "bo.txt is called after 'bo', and nobody of that name is marked" in told and "is a symbolic link" in told
    assert "requests/1_collectives (a folder) is not used" in told and "1_collectives (a folder) is not used" in shown.text


def test_marks_that_are_older_than_a_change_of_points_are_named(folder, capsys):
    folder.mark("ann", record({RING: "right"}))
    facts = record({RING: "right"})
    facts["exercises"][RING] |= {"points": 9, "max_points": 9}
    folder.mark("bo", facts)
    assert main(["report", UNIT]) == 0
    told = capsys.readouterr().out
    assert f"bo: marked before points changed: `python -m grader autograde {UNIT} --same-cases` marks it anew" in told
    assert "ann: marked" not in told


def test_a_name_that_is_not_unicode(folder, capsys):
    folder.mark(os.fsdecode(b"j\xf6rg"), record({RING: "mean"}))
    assert main(["report", UNIT]) == 0
    assert "J" not in capsys.readouterr().err and folder.file("report.html").exists()


ODD = [
    {}, None, 3, "text", {"points": "4", "max_points": None, "earned": {"values": True}},
    {"points": float("nan"), "cases": {}}, {"points": 1e400, "max_points": 10**400}, {"hints": [[]]}, {"hints": ["x"]},
    {"hints": [[1, 2]]}, {"hints": {"a": "b"}},
    {"cases": [None, {}, {"ending": 3}, {"ending": "won"}, {"ending": "raised", "error": None}]},
    {"cases": [{"ending": "returned", "problems": ["x"], "demands": [{}, None, {"met": False}]}]},
    {"cases": [{"ending": "returned", "problems": {"0": 7}}]}, {"problem": ["no"]}, {"title": 4, "new": {"key": []}},
]


@pytest.mark.parametrize("facts", ODD, ids=range(len(ODD)))
def test_verdicts_of_any_shape_earn_nothing_and_say_why(facts):
    good = submission("ann", record({RING: "right"}))
    odd = Submission("bo", "", {RING: read_outcome(RING, facts)})
    summary = summarise(UNIT, [good, odd])
    outcome = summary.submissions[1].outcomes[RING]
    assert (outcome.points, outcome.max_points) == (0, 4) and len(outcome.reason) > 5
    assert summary.tallies[0].none == 1 and summary.tallies[0].symptoms[0].students == ("bo",)


def test_unknown_keys_are_ignored_and_missing_ones_are_no_matter():
    facts = record({RING: "mean"}) | {"digest": "abc", "new": [1]}
    facts["exercises"][RING] |= {"newer": {"x": 1}}
    lean = {"exercises": {RING: {key: facts["exercises"][RING][key] for key in ("earned", "possible", "hints")}}}
    for one in (facts, lean):
        outcome = submission("ann", one).outcomes[RING]
        assert (outcome.points, outcome.max_points, outcome.symptom) == (0, 4, "mean for sum")
    summary = summarise(UNIT, [submission("ann", lean)])
    assert summary.times() is None and "Seconds" not in as_text(summary, 100)


def test_a_record_that_lacks_an_exercise_earns_nothing_for_it():
    summary = summarise(UNIT, [submission("ann", record({RING: "right"})),
                               submission("bo", record({"reduce": "right", RING: "right"}))])
    assert [t.exercise for t in summary.tallies] == ["reduce", RING]
    assert summary.submissions[0].max_points == 8
    assert "no verdict" in summary.submissions[0].outcomes["reduce"].reason


def test_an_empty_class_has_an_empty_report():
    summary = summarise(UNIT, [])
    assert "0 submissions" in as_text(summary, 80)
    assert Reader(page(summary, points_figure(UNIT, summary.tallies))).links
    assert submission_rows(summary) == exercise_rows(summary) == []


def test_whoever_is_sent_for_by_a_hint_gets_an_alarm():
    hints = [hint for exercise in EXERCISES.values() for hint in exercise.hints.items()]
    assert {id for id, text in hints if "A person should look" in text} == set(FOR_A_PERSON)


# ── counting ──


@pytest.mark.parametrize("how, symptom, words", [
    ("mean", "mean for sum", "rank 0"), ("eighth", "too small by a factor", "rank 0: [0]: expected"),
    ("blank", "not written yet", "NotImplementedError"), ("nothing", "nothing to judge", "the solution cell is missing"),
    ("talks", "network contradicts", "the calls account for 0 B"),
])
def test_reasons_in_words(how, symptom, words):
    outcome = read_outcome(RING, record({RING: how})["exercises"][RING])
    assert outcome.symptom == symptom and words in outcome.reason and not outcome.full


def test_an_ending_without_a_hint_is_a_symptom_too():
    facts = record({RING: "eighth"})["exercises"][RING] | {"hints": []}
    assert read_outcome(RING, facts).symptom == "wrong values"
    facts = record({RING: "raised"})["exercises"][RING] | {"hints": []}
    assert read_outcome(RING, facts).symptom == "raised IndexError"
    facts = record({RING: "deadlock"})["exercises"][RING] | {"hints": []}
    assert read_outcome(RING, facts).reason.startswith("deadlock: ranks 0 and 1 wait")


def test_every_submission_that_lost_points_has_a_reason_in_table_and_page():
    source = random.Random(3)
    ways = ("right", "mean", "eighth", "raised", "deadlock", "blank", "nothing", "talks")
    class_ = [submission(f"student-{i:02}", record({name: source.choice(ways) for name in (RING, "reduce", "bandwidths")}))
              for i in range(30)]
    summary = summarise(UNIT, class_)
    content = Reader(page(summary, points_figure(UNIT, summary.tallies))).text
    lost = [(one, outcome) for one in summary.submissions for outcome in one.outcomes.values() if not outcome.full]
    assert len(lost) > 40
    rows = {row["student"]: row for row in submission_rows(summary)}
    for one, outcome in lost:
        assert rows[one.student][f"{outcome.exercise} reason"]
        own = content[content.rindex(one.student):].split("student-")[1]
        assert outcome.reason in own and outcome.exercise in own


def test_whoever_handed_in_no_work_is_counted_once_and_not_with_each_exercise():
    names = (RING, "reduce")
    class_ = [submission(student, record(dict.fromkeys(names, how))) for student, how in (
        ("ann", "blank"), ("bo", "nothing"), ("cy", "mean"), ("di", "right"))]
    summary = summarise(UNIT, [*class_, submission("eve", record({RING: "blank", "reduce": "right"}))])
    told = {exercise: [(s.name, s.students) for s in symptoms] for exercise, _, symptoms in summary.symptoms(9)}
    assert told["all exercises"] == [("not written yet", ("ann",)), ("nothing to judge", ("bo",))]
    assert told[RING] == [("mean for sum", ("cy",)), ("not written yet", ("eve",))]
    assert not {"ann", "bo"} & {student for _, students in told["reduce"] for student in students}
    assert [len(tally.points) for tally in summary.tallies] == [5, 5]


def test_points_are_counted_into_none_part_and_all():
    outcomes = [read_outcome(RING, {"points": p, "max_points": 4}) for p in (0, 0, 1, 2, 3, 3.9, 4)]
    one, = summarise(UNIT, [Submission(f"s{i}", "", {RING: o}) for i, o in enumerate(outcomes)]).tallies
    assert (one.none, one.part, one.full, one.histogram()) == (2, 4, 1, [2, 1, 1, 2, 1])
    assert one.mean == pytest.approx(13.9 / 7)


def test_an_exercise_without_points_is_withdrawn_and_nobody_has_all_of_them():
    outcome = read_outcome(RING, {"points": 0, "max_points": 0})
    summary = summarise(UNIT, [Submission("ann", "", {RING: outcome})])
    one, = summary.tallies
    assert (one.none, one.part, one.full) == (0, 0, 0) and "withdrawn" in as_text(summary, 110)
    picture = points_figure(UNIT, summary.tallies)
    assert f"{RING}: withdrawn" in picture.words and ">withdrawn</td>" in page(summary, picture)


def test_what_needs_a_look_is_sorted_by_kind_and_told_once():
    facts = record({RING: "talks"}, alarms=[
        alarm(CONTAINED, "contained while the cells ran: too many processes"), "of an earlier version",
        alarm("of a later version", "something new"), alarm(UNUSUAL, "cell 'reduce' uses os.fork (line 3)", "reduce")])
    told = record({RING: "talks"}, alarms=[
        alarm(CONTRADICTED, f"{RING}: the network contradicts the calls: 1 B crossed", RING)])
    refused = record({RING: "right"})
    refused["exercises"][RING] |= {"problem": "The ranks' evidence was not accepted: x.", "points": 0}
    looks = summarise(UNIT, [submission("ann", facts), submission("bo", told), submission("cy", refused),
                             Submission("dee", "handed in, but not marked"),
                             Submission("eve", remarks=("it was interrupted", "it was not done and was interrupted"))]).looks
    assert [(look.student, look.kind) for look in looks] == [
        ("ann", CONTRADICTED), ("bo", CONTRADICTED), ("ann", CONTAINED), ("cy", MALFORMED), ("ann", UNUSUAL),
        ("ann", OTHER), ("ann", OTHER), ("eve", OTHER), ("dee", NOT_MARKED)]
    assert [look.words for look in looks if look.kind == OTHER] == [
        "of an earlier version", "something new", "it was not done and was interrupted"]


def test_what_many_submissions_need_a_look_for_is_one_line():
    busy = record({RING: "right"}, alarms=[alarm(OTHER, "the machine was too busy")])
    summary = summarise(UNIT, [submission(student, busy) for student in ("ann", "bo", "cy", "dee")])
    text = as_text(summary, 200)
    assert "Needs a look (4)" in text and "    4 submissions (ann, bo, cy and 1 more): the machine was too busy" in text
    shown = Reader(page(summary, points_figure(UNIT, summary.tallies))).text
    assert "4 submissions: ann; bo; cy; dee the machine was too busy" in " ".join(shown.split())


def test_equal_solutions_are_named_with_their_partners(folder):
    solution = nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
    sources = {name_of(cell): cell.source for cell in solution.cells if is_solution(cell)}
    for student in ("ann", "bo"):
        folder.mark(student, record({RING: "right"}), sources)
    folder.mark("cy", record({RING: "blank"}))
    assert main(["report", UNIT]) == 0
    rows = folder.submissions()
    assert f"{ALIKE}: like bo: 100%" in rows["ann"]["needs_a_look"] and "like ann" in rows["bo"]["needs_a_look"]
    assert rows["cy"]["needs_a_look"] == ""


def test_three_hundred_students_fit_the_terminal_and_the_page():
    source = random.Random(1)
    kinds = {how: {name: read_outcome(name, verdict(name, how).record() | {"hints": [["many", "words " * 40]]})
                   for name in NAMES} for how in ("right", "mean", "blank")}
    class_ = [Submission(f"student {i}", "", {name: kinds[source.choice(list(kinds))][name] for name in NAMES}, 30.0)
              for i in range(300)]
    summary = summarise(UNIT, class_)
    assert all(len(t.points) == 300 for t in summary.tallies)
    assert max(sum(map(columns, line)) for line in as_text(summary, 72).split("\n")) <= 72
    assert len(Reader(page(summary, points_figure(UNIT, summary.tallies))).ids) >= 300


@pytest.mark.parametrize("alarms", [None, "text", {"kind": OTHER}, 3])
def test_alarms_that_are_no_list_are_none(alarms):
    assert submission("ann", record({RING: "right"}, alarms=alarms)).alarms == ()


@pytest.mark.parametrize("value", [{}, 3, [], {"kind": ["x"], "text": 7}, {"text": None, "about": 3}], ids=str)
def test_an_alarm_of_any_shape_is_told(value):
    told, = submission("ann", record({RING: "right"}, alarms=[value])).alarms
    assert told == Alarm(OTHER, json.dumps(value))
