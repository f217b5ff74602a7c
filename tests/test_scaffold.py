"""A new exercise begins with everything that its tests ask for, and fails them until it is written."""

import ast
import shutil

import nbformat
import pytest

from grader.course.counts import bring_up_to_date
from grader.course.scaffold import ROOT, Refused, begin
from grader.course.splice import name_of
from grader.exercises import UNITS

UNIT = "03_zero1"


@pytest.fixture
def course(tmp_path):
    """The files that a new exercise touches."""
    for folder in ("grader/exercises", f"solutions/{UNIT}"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def order(course, unit) -> list[str]:
    node, = (node for node in ast.parse((course / "grader/exercises" / unit / "__init__.py").read_text()).body
             if isinstance(node, ast.Assign))
    return list(ast.literal_eval(node.value))


def test_a_new_exercise_has_its_folder_cells_and_a_first_mistake(course):
    before = order(course, UNIT)
    written = begin(course, UNIT, "tree_all_gather", "All-gather along a tree")
    for path in written:
        text = (course / path).read_text()
        assert "tree_all_gather" in text or path.endswith((".ipynb", ".toml"))
        if path.endswith(".py"):
            ast.parse(text)
    notebook = nbformat.read(course / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
    nbformat.validate(notebook)
    names = [cell.id for cell in notebook.cells]
    start = names.index("tree_all_gather-contract")
    assert names[start:start + 4] == ["tree_all_gather-contract", "tree_all_gather", "tree_all_gather-watch",
                                      "tree_all_gather-check"]
    assert order(course, UNIT) == [*before, "tree_all_gather"]
    oracle = (course / "grader/exercises" / UNIT / "tree_all_gather" / "exercise.py").read_text()
    assert "raise NotImplementedError" in oracle
    mistakes = (course / "grader/exercises" / UNIT / "tree_all_gather" / "mistakes.py").read_text()
    assert 'change("mean for sum"' in mistakes


def test_it_may_come_after_another_one(course):
    begin(course, UNIT, "largest_gradient", after="clip_gradient_norm")
    names = order(course, UNIT)
    assert names.index("largest_gradient") == names.index("clip_gradient_norm") + 1
    ids = [name_of(cell) for cell in nbformat.read(course / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4).cells]
    assert ids.index("clip_gradient_norm_check") < ids.index("largest_gradient") < ids.index("partition_tensors")
    with pytest.raises(Refused, match="no exercise 'nowhere' that a new one could come after; it has sharded_step"):
        begin(course, UNIT, "x", after="nowhere")


def test_in_a_new_unit_it_begins_the_unit_too(course):
    unit = "12_long_context"
    assert "README.md" in begin(course, unit, "cut_sequence")
    assert order(course, unit) == ["cut_sequence"]
    begin(course, unit, "join_sequence")
    notebook = nbformat.read(course / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert ids[:3] == ["title", "setup", "predictions"] and ids[-2:] == ["guesses", "learned"]
    assert ids.index("cut_sequence-check") < ids.index("join_sequence-contract") < ids.index("guesses")
    assert bring_up_to_date(unit, course) == []
    before, row = [line for line in (course / "README.md").read_text().split("\n") if "(notebooks/1" in line][-2:]
    assert "11_planner" in before and row.startswith(f"| [12 Long context](notebooks/{unit}/{unit}.ipynb) |")


@pytest.mark.parametrize("unit, name, words", [
    ("09_nothing", "x", ", ".join(UNITS)), ("Nothing", "x", "or a new one such as 12_its_topic"),
    (UNIT, "two words", "cannot be a function's name"),
    (UNIT, "class", "cannot be a function's name"), (UNIT, "reduce", "there is an exercise 'reduce' already"),
])
def test_refusals_say_what_was_expected(course, unit, name, words):
    with pytest.raises(Refused, match=words):
        begin(course, unit, name)
