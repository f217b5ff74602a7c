"""A cell that needs a function which is not written yet says so in one line, and the notebook goes on; so after a check."""

import ast
import html
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grader.calling.checked import CheckFailed
from grader.contracts import contracts_in
from utils.deadlocks.errors import Failure, RankFailed
from utils.languages.choice import translated
from utils.notebook.other_units import DEFINITIONS, SKELETON, NotWrittenYet
from utils.trace.source import Line, place_name, to_line

FILLING = {"add", "append", "extend", "insert", "setdefault", "update"}
_MISSING = re.compile(r"name '(\w+)' is not defined")
_CELL = re.compile(r"Cell In\[(\d+)\]")


def go_on_without(shell: Any) -> None:
    """From now on: in this notebook."""
    skipped = _SkippedCells(shell)
    shell.set_custom_exc((NotImplementedError, RankFailed, NameError, CheckFailed), skipped.on_error)
    shell.events.register("post_run_cell", skipped.after_cell)


class _SkippedCells:
    """What cells of one notebook could not define, and why."""

    def __init__(self, shell: Any):
        self._shell = shell
        self._undefined: dict[str, str] = {}  # name -> what the cell needs which would have defined it, in words
        self._goes_on = False

    def on_error(self, shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
        """IPython calls it in the place of showing the error."""
        if isinstance(error, CheckFailed):
            print(translated(str(error)), file=sys.stderr)  # which nbgrader's validate counts as a check that has failed
        elif needs := self._needs(error):
            name = self._unset_name(error)
            _show(f"This cell needs {f'`{name}` from a cell above, which needs ' if name else ''}{needs}: not written yet.")
            self._leave(needs, trace)
        else:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)
            return
        self._goes_on = True

    def after_cell(self, result: Any) -> None:
        """The cells below are run all the same."""
        if self._goes_on:
            result.error_in_exec, self._goes_on = None, False

    def _needs(self, error: BaseException) -> str:
        """What is not written because of which a cell ended, in words; "" if it ended otherwise."""
        if name := self._unset_name(error):
            return self._undefined[name]
        if isinstance(error, NotWrittenYet):
            return error.needs
        lines: Sequence[Line] = ()
        if isinstance(error, RankFailed):
            lines = next((failure.lines for failure in error.failures if _is_of_skeleton(failure)), ())
        elif isinstance(error, NotImplementedError) and str(error) == SKELETON:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [to_line((frame.filename, frame.lineno, frame.name)) for frame in frames]
        return _in_words(self._defined_around(lines[-1])) if lines else ""

    def _unset_name(self, error: BaseException) -> str:
        """The name that is missing, here or in a rank, because a cell above was left; "" if none is."""
        if isinstance(error, NameError):
            names = [error.name]
        else:
            messages = [failure.message for failure in getattr(error, "failures", ()) if failure.kind == NameError.__name__]
            names = [found[1] for message in messages if (found := _MISSING.fullmatch(message))]
        return next((name for name in names if name in self._undefined), "")

    def _defined_around(self, line: Line) -> str:
        """The function or class of the notebook that this line is in."""
        for statement in self._statements_in(line.place):
            if statement.lineno <= line.number <= statement.end_lineno:
                return getattr(statement, "name", line.function)
        return line.function

    def _leave(self, needs: str, trace: Any) -> None:
        """Functions below the line that failed are defined all the same. What else the cell would have set is unset, so
        that no cell below shows what an earlier section has left under that name."""
        name, number = next(((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)
                             if place_name(frame.f_code.co_filename).startswith("Cell In[")), ("", 0))
        names = self._shell.user_ns
        for statement in self._statements_in(place_name(name)) if name else ():
            if statement.end_lineno < number:
                continue
            if isinstance(statement, DEFINITIONS):
                exec(compile(ast.Module([statement], []), name, "exec"), names)
                continue
            filled = {name for name in _filled_by(statement) if isinstance(names.get(name), (list, dict, set))}
            for unset in {*_set_by(statement), *filled}:
                self._undefined[unset] = needs
                names.pop(unset, None)


    def _statements_in(self, place: str) -> list[ast.stmt]:
        """Those of a cell that was run, such as "Cell In[3]"."""
        cell = _CELL.fullmatch(place)
        try:
            return ast.parse(self._shell.history_manager.input_hist_parsed[int(cell[1])]).body if cell else []
        except SyntaxError:
            return []


def _is_of_skeleton(failure: Failure) -> bool:
    return failure.kind == NotImplementedError.__name__ and failure.message == SKELETON


def _set_by(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _filled_by(statement: ast.stmt) -> Iterator[str]:
    """What it may put something into, if that is a list, a dictionary or a set."""
    for node in ast.walk(statement):
        is_filled = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        if (is_filled or (isinstance(node, ast.Attribute) and node.attr in FILLING)) and isinstance(node.value, ast.Name):
            yield node.value.id


def _in_words(name: str) -> str:
    """With its title and minutes, from the contracts of the notebook in this folder."""
    contracts = [contract for path in sorted(Path.cwd().glob("*.ipynb")) for contract in contracts_in(path)]
    about = next((contract for contract in contracts if contract.name == name), None)
    return f"`{name}` ({about.title}, {about.minutes} minutes)" if about else f"`{name}`"


def _show(text: str) -> None:
    from IPython.display import display

    text = translated(text)
    shown = re.sub(r"`(.+?)`", r"<code>\1</code>", html.escape(text))
    display({"text/plain": text, "text/html": f"<div style='color:#777777'>{shown}</div>"}, raw=True)
