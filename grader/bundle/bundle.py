"""Write the students' archive: notebooks, utils, public checks; no solutions, oracles or hidden cases (`make bundle`)."""

from __future__ import annotations

import ast
import importlib
import io
import json
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from grader.bundle.public_cases import SUFFIX, to_bytes
from grader.bundle.public_source import public_sources
from grader.checks import PUBLIC_SEED
from grader.judging.exercise import Exercise

ROOT = Path(__file__).resolve().parents[2]
TOP = "many-ranks-one-loss"
TARGETS = ("help", "lab", "clean")
PIP_SECTIONS = ("# for the course", "# last: the project itself")
PROJECT_TABLES = ("[build-system", "[project", "[tool.setuptools")
UTILS_SUFFIXES = (".py", ".csv", ".md")


def files() -> dict[str, bytes]:
    """Everything in the archive, by its path below the top folder."""
    texts = {
        "README.md": _text("grader/for_students.md"),
        "environment.yml": students_environment(_text("environment.yml")),
        "Makefile": students_makefile(_text("Makefile")),
        "pyproject.toml": students_project(_text("pyproject.toml")),
        "tools/requirements.py": _text("tools/requirements.py"),
    }
    utils = [path.relative_to(ROOT) for path in (ROOT / "utils").rglob("*") if path.suffix in UTILS_SUFFIXES]
    texts |= {path.as_posix(): _text(path) for path in utils}
    return {name: text.encode() for name, text in (texts | notebooks() | checks()).items()} | case_data()


def write(archive: Path) -> None:
    """Write the archive; the same files make the same bytes. (xz, because big cases of many exercises share numbers.)"""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", format=tarfile.GNU_FORMAT, preset=9) as tar:
        for name, content in sorted(files().items()):
            entry = tarfile.TarInfo(f"{TOP}/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


# ── one list, one Makefile: the students' are parts of ours ──


def students_environment(environment: str) -> str:
    """environment.yml with the sections of its pip list that the course itself needs."""
    kept, lines = True, []
    for line in environment.splitlines(keepends=True):
        if re.match(r" {6}# ", line):
            kept = line.strip() in PIP_SECTIONS
        lines += [line] * kept
    return "".join(lines)


def students_makefile(makefile: str) -> str:
    """The Makefile's paragraphs without other targets, and without the variables that only those use."""
    kept = [part for part in makefile.split("\n\n") if set(_matches(r"^([a-z-]+):(?!=)", part)) <= set(TARGETS)]
    text = "\n\n".join(part for part in kept if _is_used(part, kept))
    return re.sub(r"^\.PHONY: help .*$", f".PHONY: {' '.join(TARGETS)}", text, flags=re.M)


def _is_used(paragraph: str, paragraphs: Iterable[str]) -> bool:
    variables = _matches(r"^([A-Z_]+) *[:?]?=", paragraph)
    return not variables or any(f"$({name})" in part for name in variables for part in paragraphs)


def students_project(pyproject: str) -> str:
    """pyproject.toml as far as `pip install -e .` reads it."""
    return "".join(part for part in re.split(r"^(?=\[)", pyproject, flags=re.M) if part.startswith(PROJECT_TABLES))


# ── notebooks ──


def notebooks() -> dict[str, str]:
    """The released notebooks, by path.  Raises: SystemExit for one that somebody has worked in."""
    paths = [path.relative_to(ROOT) for path in sorted((ROOT / "notebooks").glob("*/*.ipynb"))]
    texts = {path.as_posix(): _text(path) for path in paths if path.stem == path.parent.name}
    touched = [name for name, text in texts.items() if _is_touched(json.loads(text))]
    if touched:
        sys.exit(f"not as released: {', '.join(touched)}; `make notebooks` makes them anew")
    return texts


def _is_touched(notebook: dict) -> bool:
    """Whether cells have run or an exercise is no longer a skeleton: what an instructor tried is not for students."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    exercises = [cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("solution")]
    return (any(cell["outputs"] or cell["execution_count"] for cell in cells)
            or not all("NotImplementedError" in "".join(cell["source"]) for cell in exercises))


# ── the checks ──


def checks() -> dict[str, str]:
    """The modules that `from grader import check` and the exercises import, by path."""
    exercises = public_sources({_module(path): _text(path) for path in (ROOT / "grader/exercises").rglob("*.py")})
    todo, found = {"grader", *exercises}, {}
    while todo:
        found |= {module: exercises.get(module) or _text(_path(module)) for module in todo}
        todo = {used for module in todo for used in _imports(found[module])} - found.keys()
    return {_path(module).relative_to(ROOT).as_posix(): source for module, source in found.items()}


def _imports(source: str) -> Iterator[str]:
    """The modules of grader that a module imports, and the packages that they are in."""
    for node in ast.walk(ast.parse(source)):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [".".join([*names[:1], alias.name]) for alias in node.names]
        for name in names:
            parts = name.split(".")
            packages = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
            yield from (one for one in packages if parts[0] == "grader" and _path(one).exists())


def case_data() -> dict[str, bytes]:
    """Each exercise's public cases and what its oracle makes of them, by path."""
    data = {}
    for path in sorted((ROOT / "grader/exercises").rglob("*.py")):
        exercise = getattr(importlib.import_module(_module(path)), "EXERCISE", None)
        if exercise is not None:
            data[path.relative_to(ROOT).with_suffix(SUFFIX).as_posix()] = _data_of(exercise)
    return data


def _data_of(exercise: Exercise) -> bytes:
    cases = exercise.cases(PUBLIC_SEED, False)
    return to_bytes(cases, [exercise.oracle(case) for case in cases])


# ── small things ──


def _text(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _matches(pattern: str, text: str) -> list[str]:
    return re.findall(pattern, text, re.M)


def _module(path: Path) -> str:
    """"grader.checks" of grader/checks.py."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _path(module: str) -> Path:
    """The file of a module or of a package."""
    package = ROOT.joinpath(*module.split("."), "__init__.py")
    return package if package.exists() else ROOT.joinpath(*module.split(".")).with_suffix(".py")


def main() -> None:
    archive = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / f"{TOP}.tar.xz"
    write(archive)
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
