"""What the reader has written, in another unit's notebook or in this one."""

import ast
import contextlib
from pathlib import Path
from types import CodeType
from typing import Any

import nbformat

from utils.deadlocks.errors import ShowsItself

SKELETON = "yours to write"  # what the NotImplementedError of a released skeleton says
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def written_in(unit: str, name: str, folder: str | Path = "..") -> Any | None:
    """The function or class `name` as it stands in `unit`'s notebook, which lies beside this one.

    Only imports, functions and classes of that notebook are executed, so nothing runs and nothing is printed.
    unit: such as "02_data_parallel"; folder: where the units' folders are.
    Returns: None where there is no such notebook, or `name` is missing, or not written yet.
    """
    path = Path(folder) / unit / f"{unit}.ipynb"
    if not path.is_file():
        return None
    namespace: dict[str, Any] = {"__name__": f"unit_{unit}"}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and "watch" not in cell.metadata.get("tags", []):
            _define(cell.source, namespace)
    return namespace.get(name)


def is_written(thing: Any) -> bool:
    """Whether nothing of this function or class of the notebook is a skeleton any more."""
    parts = vars(thing).values() if isinstance(thing, type) else [thing]
    return not any(_has_skeleton(code) for part in parts if (code := getattr(_unwrapped(part), "__code__", None)))


def _unwrapped(part: Any) -> Any:
    """The function in a property, a static method or a class method."""
    return getattr(part, "fget", None) or getattr(part, "__func__", part)


def _has_skeleton(code: CodeType) -> bool:
    return any(const == SKELETON or (isinstance(const, CodeType) and _has_skeleton(const)) for const in code.co_consts)


class NotWrittenYet(ShowsItself, NotImplementedError):
    """A cell needs what another unit's notebook does not have. needs: what that is, in words."""

    def __init__(self, needs: str):
        super().__init__(f"this cell needs {needs}")
        self.needs = needs


def needed_from(unit: str, *names: str, folder: str | Path = "..") -> list[Any]:
    """The functions or classes of these names, as written_in gives them.  Raises: NotWrittenYet where one is missing."""
    found = [written_in(unit, name, folder) for name in names]
    if None in found:
        missing = " and ".join(f"`{name}`" for name, one in zip(names, found, strict=True) if one is None)
        raise NotWrittenYet(f"{missing} of unit {unit}, written and saved in its folder beside this one")
    return found


def _define(source: str, namespace: dict[str, Any]) -> None:
    """Execute the definitions of one cell that are written already; a cell that is no Python defines nothing."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return
    for statement in statements:
        if isinstance(statement, DEFINITIONS) and not _is_skeleton(statement):
            with contextlib.suppress(Exception):  # it needs something that the notebook computes
                exec(compile(ast.Module([statement], []), "<earlier unit>", "exec"), namespace)


def _is_skeleton(statement: ast.stmt) -> bool:
    """Whether it still raises NotImplementedError somewhere."""
    return any(isinstance(node, ast.Raise) and "NotImplementedError" in ast.unparse(node) for node in ast.walk(statement))
