"""One list of dependencies, a Makefile that lists its targets, and a repository fit to commit."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
ENVIRONMENT = (ROOT / "environment.yml").read_text(encoding="utf-8")
DEPENDENCIES = yaml.safe_load(ENVIRONMENT)["dependencies"]
PIP_LIST = DEPENDENCIES[-1]["pip"]
PINNED = PIP_LIST[:-1]


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def repository_files() -> list[str]:
    """What is committed, or would be by `git add .`."""
    listing = output_of(
        "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"
    )
    return sorted(name for name in set(listing.split("\0")) if name and (ROOT / name).is_file())


def test_conda_and_pip_install_the_same_list():
    assert output_of(sys.executable, "tools/requirements.py").splitlines() == PIP_LIST


def test_pyproject_adds_no_second_list():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not {"dependencies", "dynamic"} & project.keys() and project["optional-dependencies"].keys() == {"cluster"}
    assert f"python{project['requires-python']}" in DEPENDENCIES


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
