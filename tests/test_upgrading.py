"""Private names of libraries: each that we use is listed in docs/upgrading.md, and is there in the installed version."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from torch.distributed import ProcessGroup

from tests.course import ROOT
from utils.trace.traced_group import TracedGroup

LIBRARIES = ("torch", "nbgrader", "nbclient", "nbformat", "nbconvert", "cloudpickle", "safetensors", "IPython", "ipykernel",
             "ipywidgets", "matplotlib", "jupyter_client", "traitlets", "msgspec", "psutil", "sqlalchemy")
PAGE = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
LISTED = sorted({name for name in re.findall(r"`([\w.]+)`", PAGE) if name.split(".")[0] in LIBRARIES and "._" in name})


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def used(path: Path) -> Iterator[str]:
    """The full names of what a file takes from libraries."""
    nodes, known = list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))), {}
    for node in nodes:
        if isinstance(node, ast.Import):
            known |= {name.asname or name.name.split(".")[0]: name.name if name.asname else name.name.split(".")[0]
                      for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            known |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}

    def full(node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            return known.get(node.id)
        if isinstance(node, ast.Attribute) and (start := full(node.value)):
            return f"{start}.{node.attr}"
        return None

    yield from (name for name in (*map(full, nodes), *known.values()) if name and name.split(".")[0] in LIBRARIES)


@pytest.fixture(scope="module")
def private() -> dict[str, set[str]]:
    """Each private name, with the files that use it."""
    found: dict[str, set[str]] = {}
    for path in (path for house in ("utils", "grader") for path in (ROOT / house).rglob("*.py")):
        for name in filter(is_private, used(path)):
            found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


def test_every_private_name_that_we_use_is_listed(private):
    missing = {name: files for name, files in private.items()
               if not any(name == one or name.startswith(f"{one}.") or one.startswith(f"{name}.") for one in LISTED)}
    assert missing == {}, "docs/upgrading.md lists what an upgrade may break"


@pytest.mark.parametrize("name", LISTED)
def test_it_is_there_and_used(name, private):
    assert any(one == name or one.startswith(f"{name}.") for one in private), "nothing uses it any more"
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return
    pytest.fail("its module is not there")


def test_every_call_of_a_group_is_recorded():
    """A method that returns a Work and that the trace doesn't know would go past it: torch 2.14 has new ones."""
    begin_no_call = {"_end_coalescing", "_register_on_completion_hook", "reconfigure"}
    calls = {name for name, method in vars(ProcessGroup).items() if "Work" in (method.__doc__ or "")}
    assert {name for name in calls - begin_no_call if name not in vars(TracedGroup)} == set()


@pytest.mark.parametrize("file", sorted(set(re.findall(r"`((?:tests|docs|utils|tools)/[\w./]+)`", PAGE))))
def test_what_the_page_points_to_is_there(file):
    assert (ROOT / file).exists()
