"""Every attack earns what a blank submission earns, and leaves its line; every control earns everything it was made for."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from grader.course.mark import exercise_of, mark_submission
from grader.course.splice import is_check, is_solution, name_of
from grader.exercises import EXERCISES
from tests.course import ROOT, SANDBOX, belongs

pytestmark = [pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap"), pytest.mark.timeout(300)]
FOLDERS = {"attacks": ROOT / "tests" / "attacks", "controls": ROOT / "tests" / "controls"}
UNIT = "01_collectives"


def files(kind: str) -> list:
    """The corpus, with the marks (pytest's) that each notebook asks for in its metadata."""
    found = []
    for path in sorted(FOLDERS[kind].glob("*.ipynb")):
        facts = nbformat.read(path, as_version=4).metadata.get(kind.removesuffix("s"), {})
        marks = [pytest.mark.long] * facts.get("long", False)
        marks += [pytest.mark.xfail(reason=facts["xfail"], strict=False)] if "xfail" in facts else []
        found.append(pytest.param(path, id=path.stem, marks=marks))
    return found


def exercises_of(notebook: NotebookNode) -> set[str]:
    """The exercises that a submission has a solution or a check for."""
    return {exercise_of(cell) for cell in notebook.cells if is_solution(cell) or is_check(cell)} & EXERCISES.keys()


def released(exercises: set[str]) -> bytes:
    """The unit as it is handed out, reduced to some exercises."""
    notebook = nbformat.read(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if belongs(cell, exercises)]
    return nbformat.writes(notebook).encode()


def record_of(path: Path) -> dict:
    exercises = exercises_of(nbformat.read(path, as_version=4))
    assert exercises, "the notebook is about no exercise"
    _, record = mark_submission(path.read_bytes(), released(exercises))
    assert set(record["exercises"]) == exercises
    return record


@pytest.mark.parametrize("path", files("attacks"))
def test_an_attack_earns_nothing_and_leaves_its_line(path):
    record = record_of(path)
    text = json.dumps(record, ensure_ascii=False)
    assert {name: verdict["points"] for name, verdict in record["exercises"].items() if verdict["points"]} == {}, text
    assert nbformat.read(path, as_version=4).metadata.attack.says in text.replace("\\n", "\n").replace('\\"', '"'), text


@pytest.mark.parametrize("path", files("controls"))
def test_a_control_earns_everything(path):
    record = record_of(path)
    lost = {name: v for name, v in record["exercises"].items() if v["points"] < v["max_points"]}
    assert lost == {}, json.dumps(lost, ensure_ascii=False)
    assert record["remarks"] == [] and record["alarms"] == []


def test_the_corpora_are_large_and_tidy():
    assert len(files("attacks")) >= 50 and len(files("controls")) >= 18
    for kind in FOLDERS:
        for path in FOLDERS[kind].glob("*.ipynb"):
            notebook = nbformat.read(path, as_version=4)
            assert [cell.cell_type for cell in notebook.cells].count("markdown") == 1, path.name
            assert path.stat().st_size < 20_000 and all(not cell.get("outputs") for cell in notebook.cells), path.name
            assert len({name_of(cell) for cell in notebook.cells}) >= 2, path.name
