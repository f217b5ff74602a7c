"""Every command of the instructors' guide, run as written, in its order."""

import contextlib
import csv
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import psutil
import pytest

from grader import hunt
from grader.exercises import EXERCISES, UNITS
from tests.course import ROOT, SANDBOX, belongs

UNIT = "01_collectives"
LEFT_BEHIND = (".venv", ".git", "__pycache__", "gradebook.db*", "submitted", "autograded", "feedback", "reports", "marking",
               "build")
ON_CANVAS = "python -m grader handback canvas"
OTHER_UNITS = [unit for unit in UNITS if unit != UNIT]  # their notebooks, and their exercises
STEPS = ("grader assign", "make notebooks", "make bundle", "grader collect", "grader autograde", "grader report",
         "grader handback moodle", "grader handback canvas", "--regrade", "dask scheduler", "dask worker")
pytestmark = [pytest.mark.xdist_group("guide"), pytest.mark.timeout(900), pytest.mark.long,
              pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")]


def blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / "grader" / "README.md").read_text(), re.DOTALL)


def course_folder(folder: Path) -> Path:
    """The course as it is here with a small unit 01 and no other one, this environment, and one submission."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_BEHIND, *OTHER_UNITS))
    (folder / ".venv").symlink_to(sys.prefix)
    for stamp in (".stamp", ".everything"):  # in this order
        (folder / stamp).write_text(f"{folder}\n")
    (folder / hunt.STORED.relative_to(ROOT)).write_text(hunt.stored())  # as unit 10's notebook is not there
    source = folder / "solutions" / UNIT / f"{UNIT}.ipynb"
    notebook = nbformat.read(source, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if belongs(cell, {"ring_time"})]
    nbformat.write(notebook, source)
    (folder / "own.toml").write_text(f"[units.{UNIT}]\ndue = 2027-05-03\n[late]\npercent_a_day = 10\n")
    downloads = folder / "downloads" / UNIT
    downloads.mkdir(parents=True)
    (folder / "gradebook.csv").write_text("Student,ID,SIS Login ID,Section,Unit 01 (7)\n    Points Possible,,,,9\n"
                                          '"Lee, Ann",1000001,ann,L01,\n')
    (downloads / "worksheet.csv").write_text(
        "Identifier,Full name,Grade,Maximum grade,Last modified (submission)\n"
        f'Participant 1000001,Ann Lee,,{EXERCISES["ring_time"].max_points:g},"Tuesday, 4 May 2027, 6:21 PM"\n'
        "Participant 1000002,Bo Li,,2,-\n")
    with zipfile.ZipFile(downloads / "submissions.zip", "w") as archive:
        archive.write(source, f"Ann Lee_1000001_assignsubmission_file_/{UNIT} (1).ipynb")
    return folder


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@contextlib.contextmanager
def session(*command, **options):
    """A program in a session of its own; whatever it began is ended on leaving, what runs in the background too."""
    with subprocess.Popen(*command, start_new_session=True, **options) as program:
        try:
            yield program
        finally:
            for process in psutil.process_iter():
                with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                    if os.getsid(process.pid) == program.pid:
                        process.kill()


def test_every_command_runs_as_written(tmp_path):
    folder = course_folder(tmp_path / "course")
    script = "set -em\n" + "\n".join(blocks()).replace("8786", free_port()).replace("course.example.toml", "own.toml")
    script = script.replace(ON_CANVAS, f"cp -r handed_back/{UNIT} by_moodle; cp gradebook.csv collected/{UNIT}/roster.csv\n"
                                       + ON_CANVAS)  # whose table collect would have kept
    with session(["bash", "-c", script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                 stdin=subprocess.DEVNULL,
                 env={**os.environ, "PYTHONPATH": str(folder), "ARGS": "",
                      "MAKEFLAGS": "STAMP=.stamp EVERYTHING=.everything"}) as run:
        said, _ = run.communicate()
    assert run.returncode == 0, said
    assert "1 marked" in said and "No mark changes." in said
    assert "notebooks of 1 student." in said and "Late (1): Ann Lee, 1000001 (18 h)" in said and "nothing (1): Bo Li" in said
    row, = csv.DictReader((folder / "handed_back" / UNIT / "marks.csv").open())
    assert row["Student"] == "Lee, Ann" and float(row["Unit 01 (7)"]) == 0.9 * EXERCISES["ring_time"].max_points
    assert said.count("the assignment had ") == 1 and "the assignment had 9 points on Canvas" in said
    back = folder / "by_moodle"
    row, = csv.DictReader((back / "marks.csv").open())
    most = EXERCISES["ring_time"].max_points
    assert row["Full name"] == "Ann Lee" and float(row["Grade"]) == 0.9 * most
    with zipfile.ZipFile(back / "feedback.zip") as archive:
        page, = archive.namelist()
        assert page == "Ann Lee_1000001_assignsubmission_file_/feedback.html"
        text = archive.read(page).decode()
    assert f"{0.9 * most:g} of {most:g} points" in text and "Ann Lee (1000001)" in text and len(text) < 100_000
    assert (folder / "reports" / UNIT / "report.html").exists() and list((folder / "build").glob("*.tar.xz"))


def test_the_guide_has_commands_for_every_step():
    commands = " ".join(blocks())
    assert [step for step in STEPS if step not in commands] == []


def test_the_first_evening_is_short():
    text = (ROOT / "grader" / "README.md").read_text()
    page = text[text.index("## Your first evening"):text.index("## Release")]
    assert len(page.split()) <= 500 and page.count("```sh") == 12
