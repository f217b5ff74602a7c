"""Cells that need what is not written yet: one line in their place, and what they would have set is not there."""

import ast

import pytest
from IPython.core.interactiveshell import InteractiveShell

from grader.calling.checked import CheckFailed
from grader.not_written import go_on_without
from utils.notebook.other_units import NotWrittenYet, is_written

SKELETON = 'def shard(x):\n    raise NotImplementedError("yours to write")'
WRITTEN = "def shard(x):\n    return x"


@pytest.fixture
def shell(monkeypatch):
    """A notebook's shell, whose `display` prints."""
    shell = InteractiveShell()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    go_on_without(shell)
    shell.run_cell(SKELETON, store_history=True)
    return shell


def run(shell, source, capsys) -> tuple[bool, str]:
    """(whether the notebook goes on, what was printed)"""
    result = shell.run_cell(source, store_history=True)
    return result.success, "".join(capsys.readouterr())


def test_the_line_names_the_function_and_the_cells_below_go_on(shell, capsys):
    goes_on, said = run(shell, "y = shard(1)", capsys)
    assert goes_on and "This cell needs `shard`: not written yet." in said and "<code>shard</code>" in said
    goes_on, said = run(shell, "print(y + 1)", capsys)
    assert goes_on and "This cell needs `y` from a cell above, which needs `shard`: not written yet." in said
    assert run(shell, "print(2)", capsys) == (True, "2\n")
    shell.run_cell(WRITTEN, store_history=True)
    assert run(shell, "y = shard(1)\nprint(y)", capsys) == (True, "1\n")


def test_within_ranks_it_is_the_same(shell, capsys):
    shell.run_cell("from utils import run_ranks", store_history=True)
    goes_on, said = run(shell, "run = run_ranks(lambda: shard(1), 2)", capsys)
    assert goes_on and "This cell needs `shard`: not written yet." in said
    goes_on, said = run(shell, "run_ranks(lambda: run.results, 2)", capsys)
    assert goes_on and "This cell needs `run` from a cell above, which needs `shard`" in said


def test_no_cell_shows_what_an_earlier_section_left_and_functions_below_are_there(shell, capsys):
    shell.run_cell("trace, rows, before = 'of an earlier section', [], 1", store_history=True)
    run(shell, "before = 2\nrows.append(shard(1))\ntrace = 3\ndef below():\n    return 4", capsys)
    assert run(shell, "print(before, below())", capsys) == (True, "2 4\n")
    for name in ("trace", "rows"):
        goes_on, said = run(shell, f"print({name})", capsys)
        assert goes_on and f"`{name}` from a cell above" in said and "earlier section" not in said


@pytest.mark.parametrize("source, words", [
    ("1 / 0", "ZeroDivisionError"), ("print(nowhere)", "'nowhere' is not defined"),
    ("raise NotImplementedError('no complex numbers')", "no complex numbers"),
    ("from utils import run_ranks\nrun_ranks(lambda: 1 / 0, 2)", "ZeroDivisionError"),
])
def test_other_errors_are_errors(shell, capsys, source, words):
    goes_on, said = run(shell, source, capsys)
    assert not goes_on and words in said and "This cell needs" not in said


def test_a_failed_check_is_said_and_the_cells_below_go_on(shell, capsys):
    shell.user_ns["failed"] = CheckFailed("shard has 0 of 4 points", None)
    shell.run_cell("raise failed")
    assert "shard has 0 of 4 points" in capsys.readouterr().err  # nbgrader's validate counts it


def test_what_another_unit_lacks_is_said(shell, capsys):
    shell.user_ns["lacking"] = NotWrittenYet("`f` of unit 06")
    goes_on, said = run(shell, "raise lacking", capsys)
    assert goes_on and "This cell needs `f` of unit 06: not written yet." in said


def test_a_class_is_written_when_all_of_it_is():
    names, source = {}, "class A:\n    @property\n    def g(self):\n        def inner():\n            {}"
    for body, written in (("raise NotImplementedError('yours to write')", False), ("raise NotImplementedError", True)):
        exec(compile(ast.parse(source.format(body)), "<cell>", "exec"), names)
        assert is_written(names["A"]) == written
