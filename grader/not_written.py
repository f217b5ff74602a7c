"""A cell that needs a function which is not written yet says so in one line, and the notebook goes on."""

import ast
import html
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.calling.checked import CheckFailed
from grader.contracts import contracts_in
from utils.deadlocks.errors import Failure, RankFailed
from utils.notebook.other_units import SKELETON
from utils.trace.source import Line, place_name, to_line

DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_CELL = re.compile(r"Cell In\[(\d+)\]")


class NotWritten(CheckFailed):
    """A check of a function that is not written yet, or that uses one."""


def go_on_without(shell: Any) -> None:
    """From now on: in this notebook."""
    skipped = _SkippedCells(shell)
    shell.set_custom_exc((NotImplementedError, RankFailed, NameError, NotWritten), skipped.on_error)
    shell.events.register("post_run_cell", skipped.after_cell)


class _SkippedCells:
    """What cells of one notebook could not define, and why."""

    def __init__(self, shell: Any):
        self._shell = shell
        self._undefined: dict[str, str] = {}  # name -> the exercise that the cell needs which would have defined it
        self._is_skipped = False

    def on_error(self, shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
        """IPython calls it in the place of showing the error."""
        needed, above = self._needed(error), ""
        if isinstance(error, NameError) and error.name in self._undefined:
            needed, above = self._undefined[error.name], f"`{error.name}` from a cell above, which needs "
        if isinstance(error, NotWritten):
            print(error, file=sys.stderr)  # which nbgrader's validate counts as a check that has failed
        elif needed:
            _show(f"This cell needs {above}{_in_words(needed)}: not written yet.")
            self._leave(needed, trace)
        else:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)
            return
        self._is_skipped = True

    def after_cell(self, result: Any) -> None:
        """The cells below are run all the same."""
        if self._is_skipped:
            result.error_in_exec, self._is_skipped = None, False

    def _needed(self, error: BaseException) -> str:
        """The unwritten exercise because of which a cell ended; "" if it ended otherwise."""
        if isinstance(error, RankFailed):
            lines = next((failure.lines for failure in error.failures if _is_of_skeleton(failure)), ())
        elif isinstance(error, NotImplementedError) and str(error) == SKELETON:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [to_line((frame.filename, frame.lineno, frame.name)) for frame in frames]
        else:
            return ""
        return self._defined_around(lines[-1]) if lines else ""

    def _defined_around(self, line: Line) -> str:
        """The function or class of the notebook that this line is in."""
        cell = _CELL.fullmatch(line.place)
        if cell is None:
            return line.function
        for statement in _statements(self._shell.history_manager.input_hist_parsed[int(cell[1])]):
            if statement.lineno <= line.number <= statement.end_lineno:
                return getattr(statement, "name", line.function)
        return line.function

    def _leave(self, needed: str, trace: Any) -> None:
        """Functions below the line that failed are defined all the same. What else the cell would have set is unset, so
        that no cell below shows what an earlier section has left under that name."""
        name, number = next(((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)
                             if place_name(frame.f_code.co_filename).startswith("Cell In[")), ("", 0))
        cell = _CELL.fullmatch(place_name(name)) if name else None
        if cell is None:
            return
        names = self._shell.user_ns
        for statement in _statements(self._shell.history_manager.input_hist_parsed[int(cell[1])]):
            if statement.end_lineno < number:
                continue
            if isinstance(statement, DEFINITIONS):
                exec(compile(ast.Module([statement], []), name, "exec"), names)
                continue
            for unset in _set_by(statement):
                self._undefined[unset] = needed
                names.pop(unset, None)


def _is_of_skeleton(failure: Failure) -> bool:
    return failure.kind == NotImplementedError.__name__ and failure.message == SKELETON


def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError:
        return []


def _set_by(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _in_words(name: str) -> str:
    """With its title and minutes, from the contracts of the notebook in this folder."""
    contracts = [contract for path in sorted(Path.cwd().glob("*.ipynb")) for contract in contracts_in(path)]
    about = next((contract for contract in contracts if contract.name == name), None)
    return f"`{name}` ({about.title}, {about.minutes} minutes)" if about else f"`{name}`"


def _show(text: str) -> None:
    from IPython.display import display

    shown = re.sub(r"`(.+?)`", r"<code>\1</code>", html.escape(text))
    display({"text/plain": text, "text/html": f"<div style='color:#777777'>{shown}</div>"}, raw=True)
