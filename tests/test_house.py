"""The house: dependencies point one way, and nothing stands where it is not expected."""

import ast
import functools
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
         for top in ("utils", "grader") for path in sorted((ROOT / top).rglob("*.py"))}
MODULES = frozenset(FILES.values())


def imported(path: Path) -> set[str]:
    """The project's modules that a file names in any import: at its top, within functions, for types."""
    package = FILES[path].split(".")[:None if path.name == "__init__.py" else -1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*(package[:len(package) + 1 - node.level] if node.level else []), *filter(None, [node.module])]
            names |= {".".join(base)} | {".".join([*base, alias.name]) for alias in node.names}
    return {name for name in names if name in MODULES} - {FILES[path]}


@functools.cache
def graph() -> dict[str, set[str]]:
    """Module → those that it imports."""
    return {module: imported(path) for path, module in FILES.items()}


def room(module: str) -> str:
    """utils.trace of utils.trace.wire, utils of utils.data."""
    return ".".join(module.split(".")[:2])


def circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_two_modules_import_each_other():
    named = {module: {other for other in others if not module.startswith(f"{other}.")} for module, others in graph().items()}
    assert circle(named) == []


@pytest.mark.parametrize("house", ["utils", "grader"])
def test_no_two_rooms_need_each_other(house):
    rooms: dict[str, set[str]] = {}
    for module, others in graph().items():
        if module.startswith(f"{house}."):
            rooms.setdefault(room(module), set()).update(
                room(other) for other in others if other.startswith(f"{house}.") and room(other) != room(module))
    assert circle(rooms) == []


def test_utils_knows_nothing_of_marking():
    for path in (ROOT / "utils").rglob("*.py"):
        assert "grader" not in path.read_text(encoding="utf-8"), path


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not circle({"a": {"b", "c"}, "b": {"c"}})


def test_every_file_says_its_purpose_in_one_line():
    for path in FILES:
        purpose = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert purpose and purpose.splitlines()[0].endswith((".", ")")), path
