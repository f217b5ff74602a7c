"""In the kernel that runs a notebook for marking: nothing is checked here, functions are handed over to the grader.

`begin` looks on from then on. After each cell, a function that an exercise asks for and that is new is kept as an earlier
version; `hand_over` takes what stands in a released check cell's place, and `hand_over_all` what stands in the end. Files of
FUNCTIONS: <exercise>.<CHECK, END, or a number>.pkl, or .txt with the reason why there is none.
"""

import ast
import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from grader.calling.checked import pack_function
from grader.evidence.evidence import NOT_WRITTEN
from grader.sandbox import CHECK, END, FUNCTIONS, NOT_DEFINED

MOST_VERSIONS = 50  # of one function
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Unchecked:
    """What a check returns here: in a student's own cell, which may go on with it, nobody has judged anything yet."""

    passed, points, max_points, hints, cases = True, 0.0, 0.0, (), ()

    def __repr__(self) -> str:
        return "checked when it is marked"


class UncheckedCheck:
    """Stands where the student's notebook has its checks. Only released check cells hand over, and they do not ask here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_: Unchecked()


def progress(*_: Any) -> None:
    """In the sandbox nobody reads on."""


def draw_program(*_: Any) -> str:
    """In the sandbox nobody writes on."""
    return ""


check = UncheckedCheck()


class Handing:
    """Takes functions from a shell's names."""

    def __init__(self, shell: Any):
        self._folder = Path(os.environ[FUNCTIONS])
        self._names = shell.user_ns
        self._exercises: dict[str, list[str]] = json.loads((self._folder / "exercises.json").read_text())  # -> parameters
        self._seen: dict[str, Any] = {}  # kept alive, so that another function is another object
        self._written: dict[str, set[bytes]] = {name: set() for name in self._exercises}
        self._versions: Counter[str] = Counter()
        self._modules = set(sys.modules)  # that were looked at

    def after_cell(self, result: Any) -> None:
        """IPython's hook."""
        if getattr(result, "error_in_exec", None) is not None:
            _define_the_rest(result.error_in_exec, result.info.raw_cell, self._names)
        for exercise in self._exercises:
            fn = self._names.get(exercise)
            if fn is not None and fn is not self._seen.get(exercise) and self._versions[exercise] < MOST_VERSIONS:
                self._seen[exercise] = fn
                self._versions[exercise] += 1
                self.take(exercise, exercise, f"{self._versions[exercise]:03}")

    def take_all(self) -> None:
        """What stands under the exercises' names now."""
        for exercise in self._exercises:
            self.take(exercise, exercise, END)

    def take(self, exercise: str, name: str, version: str) -> None:
        """What stands under a name now; for CHECK also the reason, if that cannot be an exercise's function."""
        try:
            if name not in self._names:
                raise TypeError(f"{NOT_DEFINED} {name} was defined when its check cell ran")
            fn = self._names[name]
            self._take_written_modules_along()
            blob = pack_function(exercise, self._exercises[exercise], fn, self._exercises)
            if _only_raises(fn):
                raise TypeError(NOT_WRITTEN.format(exercise))
        except Exception as error:  # whatever a student's object does when it is looked at
            if version == CHECK:
                (self._folder / f"{exercise}.{version}.txt").write_text(str(error), errors="replace")
        else:
            if version == CHECK or blob not in self._written[exercise]:
                (self._folder / f"{exercise}.{version}.pkl").write_bytes(blob)
            self._written[exercise].add(blob)

    def _take_written_modules_along(self) -> None:
        """Modules that cells have written as files (%%writefile) travel by value: no rank has the file."""
        here = os.getcwd() + os.sep
        for name in sys.modules.keys() - self._modules:
            file = _file_of(sys.modules[name])
            if isinstance(file, str) and os.path.abspath(file).startswith(here):
                cloudpickle.register_pickle_by_value(sys.modules[name])
            self._modules.add(name)


def _file_of(module: Any) -> Any:
    """Where it says that it was read from. It is not asked itself: at that, a lazy module would be imported."""
    return object.__getattribute__(module, "__dict__").get("__file__") if isinstance(module, ModuleType) else None


_handing: list[Handing] = []  # of this kernel: one, from `begin` on


def begin(shell: Any) -> None:
    """Look on from now on at the cells that this IPython shell runs."""
    _handing.append(Handing(shell))
    shell.ask_exit = lambda: None  # a cell with exit() would end the kernel a moment later, amid another cell
    shell.events.register("post_run_cell", _handing[0].after_cell)


def hand_over(exercise: str, name: str) -> None:
    """In place of the released check cell of an exercise, which checks what has this name."""
    _handing[0].take(exercise, name, CHECK)


def hand_over_all() -> None:
    """After the last cell."""
    _handing[0].take_all()


def _define_the_rest(error: BaseException, source: str, names: dict[str, Any]) -> None:
    """A cell stopped at an error, or was interrupted: functions, classes and imports below that line are made all the same.

    At home they were there; here an import that is not installed, or a shell command, stopped the cell.
    """
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_globals is not names:
        frame = frame.tb_next
    if frame is None or frame.tb_frame.f_code.co_name != "<module>":
        return
    try:
        from IPython.core.inputtransformer2 import TransformerManager

        body = ast.parse(TransformerManager().transform_cell(source)).body
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in body:
        if node.lineno > frame.tb_lineno and isinstance(node, DEFINITIONS):
            try:
                exec(compile(ast.Module([node], []), frame.tb_frame.f_code.co_filename, "exec"), names)
            except Exception:
                continue


def _only_raises(fn: Any) -> bool:
    """Is this an untouched skeleton? Then no rank need be started to find out."""
    def bare():
        raise NotImplementedError

    def with_text():
        raise NotImplementedError("text")

    code = getattr(fn, "__code__", None)
    return any(code and (code.co_code, code.co_names) == (skeleton.__code__.co_code, skeleton.__code__.co_names)
               for skeleton in (bare, with_text))
