"""Every command of the instructors' guide, run as written, in its order."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest

from grader import hunt
from grader.exercises import UNITS
from tests.course import ROOT, SANDBOX, belongs

UNIT = "01_collectives"
LEFT_BEHIND = (".venv", ".git", "__pycache__", "gradebook.db*", "submitted", "autograded", "feedback", "reports", "marking",
               "build")
OTHER_UNITS = [unit for unit in UNITS if unit != UNIT]  # their notebooks, and their exercises
STEPS = ("make notebooks", "make bundle", "grader autograde", "grader report", "generate_feedback", "nbgrader export",
         "--regrade", "dask scheduler", "dask worker")
pytestmark = [pytest.mark.xdist_group("guide"), pytest.mark.timeout(900), pytest.mark.long,
              pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")]


def blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (ROOT / "grader" / "README.md").read_text(), re.DOTALL)


def course_folder(folder: Path) -> Path:
    """The course as it is here with a small unit 01 and no other one, this environment, and one submission."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_BEHIND, *OTHER_UNITS))
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / ".stamp").write_text(f"{folder}\n")
    (folder / hunt.STORED.relative_to(ROOT)).write_text(hunt.stored())  # as unit 10's notebook is not there
    source = folder / "solutions" / UNIT / f"{UNIT}.ipynb"
    notebook = nbformat.read(source, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if belongs(cell, {"ring_time"})]
    nbformat.write(notebook, source)
    submitted = folder / "submitted" / "ann" / UNIT
    submitted.mkdir(parents=True)
    shutil.copy(source, submitted)
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
    script = "set -em\n" + "\n".join(blocks()).replace("8786", free_port())
    with session(["bash", "-c", script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                 stdin=subprocess.DEVNULL,
                 env={**os.environ, "PYTHONPATH": str(folder), "MAKEFLAGS": "STAMP=.stamp", "ARGS": ""}) as run:
        said, _ = run.communicate()
    assert run.returncode == 0, said
    assert "1 marked" in said and "No mark changes." in said
    assert "ann" in (folder / "reports" / "marks.csv").read_text()
    assert "points" in (folder / "feedback" / "ann" / UNIT / f"{UNIT}.html").read_text()
    assert (folder / "reports" / UNIT / "report.html").exists() and list((folder / "build").glob("*.tar.xz"))


def test_the_guide_has_commands_for_every_step():
    commands = " ".join(blocks())
    assert [step for step in STEPS if step not in commands] == []


def test_files_from_platforms_are_known_by_their_names():
    """Each line of the guide knows the names in the comment above it, and those alone."""
    block, = re.findall(r"```python\n(.*?)```", (ROOT / "grader" / "README.md").read_text(), re.DOTALL)
    names = re.findall(r"[\w -]+\.ipynb(?=[,\n])", block)
    moodle, canvas = re.findall(r'named_regexp = r"(.*)"', block)
    names.append(names[0].strip().replace("_file_", "_file_/"))
    found = {name.strip(): [match and (match["student_id"], match["file_id"]) for match in (
        re.match(known, f"/course/downloaded/{UNIT}/extracted/{name.strip()}") for known in (moodle, canvas))]
        for name in names}
    ann = ("1234567", UNIT)
    assert list(found.values()) == [[ann, None], [None, ("leeann", UNIT)], [None, ("leeann", UNIT)], [ann, None]]
