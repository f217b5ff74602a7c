"""One list of dependencies, which names what is imported; a Makefile that lists its targets; a repository fit to commit."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from grader.bundle.archive import CHECKS
from grader.exercises.stored import FILE

ROOT = Path(__file__).parents[1]
ENVIRONMENT = (ROOT / "environment.yml").read_text(encoding="utf-8")
DEPENDENCIES = yaml.safe_load(ENVIRONMENT)["dependencies"]
PIP_LIST = DEPENDENCIES[-1]["pip"]
PINNED = PIP_LIST[:-1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
SECTIONS = {"course": "for the course", "grading": "for marking", "dev": "for the project's own tests and tools"}
# Imported by none of our files: programs, plug-ins, what a library loads by name. environment.yml says why each is there.
INDIRECT = {"jupyterlab", "jsonschema", "psycopg", "psycopg-binary", "pytest-xdist", "pytest-timeout", "ruff", "ty",
            "pre-commit"}
OWN = {"tried", "requirements", "utils", "grader", "tests", "tools", "came_lately"}  # the last one is written by a test


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def repository_files() -> list[str]:
    """What is committed, or would be by `git add .`."""
    listing = output_of(
        "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"
    )
    return sorted(name for name in set(listing.split("\0")) if name and (ROOT / name).is_file())


def test_conda_and_pip_install_the_same_list():
    assert output_of(sys.executable, "tools/requirements.py", "everything").splitlines() == PIP_LIST
    *course, project = output_of(sys.executable, "tools/requirements.py").splitlines()
    assert project == "-e ." and [canonicalize_name(entry.split("==")[0]) for entry in course] == [*pins("course")]


# ── environment.yml's exact versions, pyproject.toml's ranges ──


def pins(section: str) -> dict[str, str]:
    """Name → version of the entries below a comment of environment.yml."""
    below = re.split(r"^ {6}# (.*)\n", ENVIRONMENT, flags=re.MULTILINE)
    lines = below[below.index(SECTIONS[section]) + 1]
    return {canonicalize_name(name): pinned for name, pinned in re.findall(r"- ([\w.-]+)==([\w.]+)", lines)}


def ranges(section: str) -> dict[str, Requirement]:
    """Name → range of pyproject's dependencies, or of an extra; the project itself is none."""
    entries = PROJECT["dependencies"] if section == "course" else PROJECT["optional-dependencies"][section]
    found = {canonicalize_name(one.name): one for one in map(Requirement, entries)}
    return {name: one for name, one in found.items() if name != PROJECT["name"]}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_pin_lies_in_the_range_of_pyproject(section):
    pinned, allowed = pins(section), ranges(section)
    assert pinned.keys() - {"jsonschema"} == allowed.keys()  # a pin for speed, of what only JupyterLab imports
    assert not [name for name, one in allowed.items() if not one.specifier.contains(pinned[name])]


def test_pyproject_and_environment_name_the_same_things():
    assert sum(len(pins(section)) for section in SECTIONS) == len(PINNED), "an entry is in no section that we know"
    assert PROJECT["optional-dependencies"].keys() == {*SECTIONS, "cluster"} - {"course"}
    assert f"python{PROJECT['requires-python']}" in DEPENDENCIES


def test_pip_installs_every_file_of_ours_and_of_the_students_archive():
    """What `pip install .` leaves out is missed only where the course isn't edited."""
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["*"]
    data = [Path(name) for name in repository_files() if name.startswith(("utils/", "grader/")) and not name.endswith(".py")]
    assert not [path for path in [*data, Path("grader", FILE)] if not any(path.match(pattern) for pattern in patterns)]


# ── what is imported is named, and what is named is needed ──


def imports(source: str) -> set[str]:
    """The top names of a file's absolute imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
    return {name.split(".")[0] for name in names}


def cell_imports(notebook: str) -> set[str]:
    """The same of a notebook, whose cells need not be Python."""
    cells = (cell for cell in json.loads(notebook)["cells"] if cell["cell_type"] == "code")
    text = "\n".join("".join(cell["source"]) for cell in cells)
    return set(re.findall(r"^ *(?:from|import) (\w+)", text, re.MULTILINE))


def packages(paths: Iterable[Path]) -> set[str]:
    """What must be installed for these files."""
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    names = set().union(*(cell_imports(text) if path.suffix == ".ipynb" else imports(text) for path, text in texts.items()))
    packages_of = packages_distributions()
    return {canonicalize_name(packages_of.get(name, [name])[0]) for name in names - OWN - sys.stdlib_module_names}


def files(*patterns: str) -> list[Path]:
    """Without those that run in other environments than ours."""
    found = (path for pattern in patterns for path in ROOT.glob(pattern) if path.suffix in (".py", ".ipynb"))
    return [path for path in found if "peers" not in path.parts]


CHECKS_FILES = [f"grader/{pattern}" for pattern in CHECKS]
FILES = {"course": files("utils/**/*.py", "tools/first_cell.py", "solutions/*/*.ipynb", *CHECKS_FILES),
         "grading": files("grader/**/*.py"), "dev": files("tests/**/*.py", "tools/*.py")}


@pytest.mark.parametrize("section, named", [
    ("course", {*pins("course")}), ("grading", {*pins("course"), *pins("grading"), *ranges("cluster")}),
    ("dev", {*pins("course"), *pins("grading"), *pins("dev"), *ranges("cluster")})])
def test_what_is_imported_is_named(section, named):
    assert not packages(FILES[section]) - named


def test_what_is_named_is_imported():
    used = packages(path for paths in FILES.values() for path in paths)
    named = set().union(*(pins(section) for section in SECTIONS))
    assert named - used == INDIRECT


@pytest.mark.parametrize("section", SECTIONS)
def test_what_is_pinned_is_locked_with_hashes(section):
    """Of torch alone the hashes differ, between its builds for CPU and GPU."""
    files = ["course.txt"] if section == "course" else ["course.txt", "marking.txt"]
    text = "".join((ROOT / "tools" / "locked" / file).read_text(encoding="utf-8") for file in files)
    locked = dict(re.findall(r"^(\S+)==(\S+)", text, re.MULTILINE))
    entries = [entry.split("==") for entry in PINNED if canonicalize_name(entry.split("==")[0]) in pins(section)]
    assert [entry for entry in entries if locked.get(canonicalize_name(entry[0])) != entry[1]] == [["torch", "2.13.0"]] * (
        section == "course")
    assert all("--hash=sha256:" in entry for entry in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:])


def test_binder_installs_what_students_do():
    entries = (ROOT / ".binder/requirements.txt").read_text(encoding="utf-8").splitlines()
    assert entries[1:] == [*(entry for entry in PINNED if canonicalize_name(entry.split("==")[0]) in pins("course")), "-e ."]


def test_an_import_is_found_wherever_it_stands():
    assert imports("def f():\n    import a.b, c\nfrom .d import e\nfrom f.g import h") == {"a", "c", "f"}
    cell = {"cell_type": "code", "source": ["%%ranks 4\n", "import a\n", "    from b.c import d"]}
    assert cell_imports(json.dumps({"cells": [cell, {"cell_type": "markdown", "source": ["import e"]}]})) == {"a", "b"}


def test_the_project_itself_comes_last():
    assert PIP_LIST[-1] == "-e ."


@pytest.mark.parametrize("entry", PINNED)
def test_every_dependency_is_pinned(entry):
    assert re.fullmatch(r"[\w.-]+==[\w.]+", entry)


@pytest.mark.parametrize("entry", PIP_LIST)
def test_every_dependency_has_a_reason(entry):
    assert re.search(rf"^ *- {re.escape(entry)} +# \S+", ENVIRONMENT, re.MULTILINE)


@pytest.mark.xdist_group("together")
def test_groups_of_tests_stay_together(request):
    """Some versions of pytest and pytest-xdist do not work together, and say nothing of it."""
    if request.config.getoption("dist", "no") != "loadgroup":
        pytest.skip("not spread over groups here")
    assert request.node.nodeid.endswith("@together")


@pytest.mark.parametrize("entry", PINNED)
def test_the_pinned_version_is_installed(entry):
    requirement = Requirement(entry)
    installed = version(requirement.name)
    assert requirement.specifier.contains(installed, prereleases=True), f"{entry}, but {installed} is installed"


def test_utils_and_grader_import_from_any_folder(tmp_path):
    where = "import grader, utils; print(*grader.__path__, *utils.__path__, sep='\\n')"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run([sys.executable, "-c", where], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.stdout.splitlines() == [str(ROOT / "grader"), str(ROOT / "utils")], run.stderr


def test_make_help_lists_every_target():
    rules = set(re.findall(r"^([a-z][a-z-]*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    listed = re.findall(r"^make ([a-z-]+) +\S+", output_of("make", "--no-print-directory", "help"), re.MULTILINE)
    assert rules == set(listed) >= {"help", "lab", "test", "test-all", "grade", "notebooks", "bench", "clean"}


def test_files_are_small_and_notebooks_have_no_outputs():
    check = [sys.executable, "tools/check_files.py", *repository_files()]
    run = subprocess.run(check, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_file_check_finds_what_it_looks_for(tmp_path):
    (tmp_path / "big.csv").write_bytes(b"x" * 500_001)
    (tmp_path / "solutions").mkdir()
    cell = '{"cells": [{"cell_type": "code", "outputs": [%s], "execution_count": %s}]}'
    notebooks = {"clean": ("", "null"), "ran": ("", "1"), "drew": ("{}", "null")}
    for name, (outputs, count) in notebooks.items():
        (tmp_path / "solutions" / f"{name}.ipynb").write_text(cell % (outputs, count))
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    run = subprocess.run(
        [sys.executable, ROOT / "tools/check_files.py", *names], cwd=tmp_path, capture_output=True, text=True
    )
    blamed = [line.split(":")[0] for line in run.stderr.splitlines()]
    assert (run.returncode, blamed) == (1, ["big.csv", "solutions/drew.ipynb", "solutions/ran.ipynb"])
