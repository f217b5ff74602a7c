"""Every attack earns what a blank submission earns, and leaves its line; every control earns everything it was made for.

Each stands in the folder of its unit. What a notebook says of itself in its metadata: says (the line that it leaves), on
("technique": its values are honest, and may earn), case, shown_by, together, xfail (the reason). Those that only
define functions are marked in groups, a unit's as one notebook: a kernel and a sandbox cost more than they do. What acts
while cells run, or on the programs around it, is marked alone. An attack is tried on one case (its own, where it names
one), and on those of the kinds in its shown_by (points are for those who pass all, so what earns none on some earns none
on all), and given up sooner. A control is tried on all kinds of cases, and two plain ones.
"""

import functools
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from grader.course import mark, running, second_look
from grader.course.mark import mark_notebook, mark_submission
from grader.course.reading import read
from grader.course.splice import exercise_of, is_check, is_solution, name_of, splice
from grader.course.suspicion import suspicions
from grader.exercises import EXERCISES
from grader.judging.exercise import TECHNIQUE, VALUES, Exercise
from tests.course import ROOT, SANDBOX, belongs
from tests.few_cases import with_few_cases

pytestmark = [pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap"), pytest.mark.timeout(600)]
UNITS = {exercise.unit for exercise in EXERCISES.values()}
GROUP = 24
TIMEOUT_S = 6.0  # for a case of an attack; marking gives it twice as much
WEIGHED_TIMEOUT_S = 15.0  # where one is large


def corpus(kind: str) -> list[Path]:
    return sorted((ROOT / "tests" / kind).glob("*/*.ipynb"))


def is_attack(path: Path) -> bool:
    return path.parents[1].name == "attacks"


@functools.cache
def facts_of(path: Path) -> dict:
    """What a notebook of the corpus says of itself."""
    return nbformat.read(path, as_version=4).metadata.get("attack" if is_attack(path) else "control", {})


def groups(kind: str) -> list[tuple[Path, ...]]:
    """Those that are marked together: some of one unit."""
    together = [path for path in corpus(kind) if facts_of(path).get("together")]
    units = [tuple(unit) for _, unit in itertools.groupby(together, lambda path: path.parent)]
    return [unit[start:start + GROUP] for unit in units for start in range(0, len(unit), GROUP)]


def parameters(kind: str) -> Iterator:
    """Each notebook with its group (alone: itself only), and the marks (pytest's) that it asks for in its metadata."""
    group_of = {path: group for group in groups(kind) for path in group}
    for path in corpus(kind):
        facts, group = facts_of(path), group_of.get(path, (path,))
        marks = [pytest.mark.xfail(reason=facts["xfail"], strict=False)] if "xfail" in facts else []
        marks += [pytest.mark.xdist_group(f"{kind} {path.parent.name} {group[0].stem}")] if len(group) > 1 else []
        yield pytest.param(path, group, id=f"{path.parent.name}-{path.stem}", marks=marks)


def exercises_of(notebook: NotebookNode) -> set[str]:
    """The exercises that a submission has a solution or a check for."""
    return {exercise_of(cell) for cell in notebook.cells if is_solution(cell) or is_check(cell)} & EXERCISES.keys()


def released(unit: str, exercises: set[str]) -> bytes:
    """The unit as it is handed out, reduced to some exercises."""
    notebook = nbformat.read(ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if belongs(cell, exercises)]
    return nbformat.writes(notebook).encode()


def record_of(path: Path, group: tuple[Path, ...]) -> dict:
    exercises = exercises_of(nbformat.read(path, as_version=4))
    assert exercises, "the notebook is about no exercise"
    if len(group) == 1:
        _, record = mark_submission(path.read_bytes(), released(path.parent.name, exercises), known=known_to(path))
        assert set(record["exercises"]) == exercises
        return record
    record = json.loads(record_of_group(group))
    own = {name: verdict for name, verdict in record["exercises"].items() if name in aliases(path)}
    assert len(own) == len(exercises)
    student, wrong_with_file = read(path.read_bytes())
    alarms = [alarm for alarm in record["alarms"] if any(name in str(alarm) for name in aliases(path))]
    alarms += [*wrong_with_file, *map(asdict, suspicions(student))]
    return record | {"exercises": own, "alarms": alarms}


def known_to(path: Path) -> dict[str, Exercise]:
    """The exercises of one notebook, with few cases."""
    exercises = [EXERCISES[name] for name in exercises_of(nbformat.read(path, as_version=4))]
    return {exercise.id: in_short(exercise, facts_of(path)) if is_attack(path) else with_few_cases(exercise)
            for exercise in exercises}


@pytest.fixture
def cells_are_given_up_sooner(monkeypatch):
    monkeypatch.setattr(running, "CELL_TIMEOUT_S", 15)
    monkeypatch.setattr(running, "LIMITS", replace(running.LIMITS, memory_bytes=1 << 30))  # sooner than the time
    monkeypatch.setattr(second_look, "LATER", 1)  # the second look is taken, and is as short as the first
    monkeypatch.setattr(mark, "LONGER", 1)


def in_short(exercise: Exercise, facts: dict) -> Exercise:
    kinds = facts.get("shown_by", ())
    return with_few_cases(exercise, kinds, plain=1, case=facts.get("case", ""),
                          timeout_s=WEIGHED_TIMEOUT_S if "weighed" in kinds else TIMEOUT_S)


def aliases(path: Path) -> dict[str, Exercise]:
    """The same under names of its own."""
    named = {f"{path.stem}__{name}": exercise for name, exercise in known_to(path).items()}
    return {alias: replace(exercise, id=alias) for alias, exercise in named.items()}


@functools.cache
def record_of_group(group: tuple[Path, ...]) -> str:
    """The record of all these notebooks, spliced one by one and then marked as one."""
    cells, known, remarks = [], {}, []
    for path in group:
        student, _ = read(path.read_bytes())
        release = released(path.parent.name, exercises_of(student))
        spliced = splice(nbformat.reads(release.decode(), as_version=4), student)
        known |= aliases(path)
        remarks += spliced.remarks
        for cell in spliced.notebook.cells:
            cells.append(renamed(cell, path.stem))
    marks = mark_notebook(nbformat.v4.new_notebook(cells=cells), known=known)
    marks.remarks += remarks
    return json.dumps(marks.record(), ensure_ascii=False)


def renamed(cell: NotebookNode, stem: str) -> NotebookNode:
    """The cell under a name of its own; a check hands over under that name."""
    cell.id = f"{stem}-{cell.id}"[-64:]
    if is_check(cell):
        cell.source = cell.source.replace(f"check.{exercise_of(cell)}", f"check.{stem}__{exercise_of(cell)}")
    if is_check(cell) or is_solution(cell):
        cell.metadata.nbgrader.grade_id = f"{stem}__{name_of(cell)}"
    return cell


@pytest.mark.long
@pytest.mark.usefixtures("cells_are_given_up_sooner")
@pytest.mark.parametrize("path, group", list(parameters("attacks")))
def test_an_attack_earns_nothing_and_leaves_its_line(path, group):
    record = record_of(path, group)
    text = json.dumps(record, ensure_ascii=False)
    parts = [facts_of(path)["on"]] if "on" in facts_of(path) else [VALUES, TECHNIQUE]
    assert {name: verdict["earned"] for name, verdict in record["exercises"].items()
            if any(verdict["earned"].get(part) for part in parts)} == {}
    assert facts_of(path)["says"] in text.replace("\\n", "\n").replace('\\"', '"'), text


@pytest.mark.long
@pytest.mark.parametrize("path, group", list(parameters("controls")))
def test_a_control_earns_everything(path, group):
    record = record_of(path, group)
    assert {name: reasons(v) for name, v in record["exercises"].items() if v["points"] < v["max_points"]} == {}
    assert record["remarks"] == [] and record["alarms"] == []


def reasons(verdict: dict) -> list[str]:
    """Why a verdict has not all its points: wrong results and unmet demands of each case, or why there is none."""
    found = []
    for case in verdict["cases"]:
        unmet = [f"{d['id']}: {d['detail']}" for d in case["demands"] if not d["met"]]
        if unmet or case["problems"] or case["error"]:
            found.append(f"{case['name']}: {case['ending']} {case['error'][:300]} {case['problems']} {unmet}")
    return found or [str({key: value for key, value in verdict.items() if key != "cases"})]


def test_the_corpora_are_large_and_tidy():
    for kind, least in (("attacks", 6), ("controls", 3)):
        count = Counter(path.parent.name for path in corpus(kind))
        of_each = {unit: count[unit] for unit in UNITS if unit > "01"}
        assert {unit: number for unit, number in of_each.items() if number < least} == {}, "CONTRIBUTING.md: add a unit"
    for path in [*corpus("attacks"), *corpus("controls")]:
        notebook = nbformat.read(path, as_version=4)
        assert [cell.cell_type for cell in notebook.cells].count("markdown") == 1, path.name
        assert path.stat().st_size < 20_000 and all(not cell.get("outputs") for cell in notebook.cells), path.name
        assert len({name_of(cell) for cell in notebook.cells}) >= 2, path.name
