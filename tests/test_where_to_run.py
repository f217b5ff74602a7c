"""Containers, Binder, workflows and docs/where-to-run.md name what is there, and say the same."""

import json
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook
from packaging.requirements import Requirement

from grader.course.suspicion import suspicions
from grader.sandbox import bubblewrap

ROOT = Path(__file__).resolve().parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PAGE, DOCKERFILE, DEVCONTAINER = text("docs/where-to-run.md"), text("Dockerfile"), text(".devcontainer/devcontainer.json")
STAGES = set(re.findall(r"^FROM \S+ AS (\w+)", DOCKERFILE, re.MULTILINE))


def targets() -> set[str]:
    """What make can be asked for, the file that says that all is installed included."""
    makefile = text("Makefile")
    named = re.findall(r"^([a-z-]+):(?!=)", makefile, re.MULTILINE)
    return {*named, *re.findall(r"^STAMP := (.*)", makefile, re.MULTILINE)}


@pytest.mark.parametrize("file", ["Dockerfile", ".devcontainer/devcontainer.json", "docs/where-to-run.md",
                                  ".github/workflows/tests.yml", ".github/workflows/site.yml"])
def test_what_make_is_asked_for_is_there(file):
    asked = re.findall(r"(?:^RUN.* |run: |[\"`])make[\" ,]+([\w./-]+)", text(file), re.MULTILINE)
    assert asked and {*asked} <= targets()


def test_the_image_copies_from_stages_that_are_there():
    assert set(re.findall(r"--from=(\w+)", DOCKERFILE)) | {"system"} <= STAGES
    assert re.findall(r"^USER (\w+)", DOCKERFILE, re.MULTILINE)[-1] == "reader" and "bubblewrap" in DOCKERFILE
    assert {".git", ".venv", "build"} <= {*text(".dockerignore").splitlines()}


def test_the_dev_container_is_made_of_a_stage():
    build = json.loads(DEVCONTAINER)["build"]
    assert (ROOT / ".devcontainer" / build["dockerfile"]).resolve() == ROOT / "Dockerfile" and build["target"] in STAGES


def test_binder_s_python_is_one_that_the_course_takes():
    wanted = Requirement(f"python{tomllib.loads(text('pyproject.toml'))['project']['requires-python']}").specifier
    assert wanted.contains(text(".binder/runtime.txt").strip().removeprefix("python-"))


def test_what_lets_bubblewrap_work_in_a_container_is_said_alike():
    options = set(re.findall(r"--security-opt (\S+=\w+)", PAGE))
    assert options == set(re.findall(r"--security-opt (\S+=\w+)", bubblewrap._REFUSED))
    assert options == {one for one in json.loads(DEVCONTAINER)["runArgs"] if "=" in one}


@pytest.mark.parametrize("file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_run_what_is_there(file):
    jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]
    commands = " ".join(step["run"] for job in jobs.values() for step in job["steps"] if "run" in step)
    assert commands and all(0 < job["timeout-minutes"] <= 120 for job in jobs.values())
    assert not [name for name in re.findall(r"tests/\w+\.py|\.ci/run", commands) if not (ROOT / name).is_file()]


# ── the page ──


def test_students_get_the_page_s_first_cell():
    first, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert first in text("grader/bundle/for_students.md")
    path, = re.findall(r'%run "{folder}/(tools/[\w/]+\.py)"', first)
    assert (ROOT / path).is_file() and suspicions(new_notebook(cells=[new_code_cell(first)])) == []


def test_the_page_s_modules_and_files_are_there():
    assert not [name for name in re.findall(r"-m ((?:utils|tests|grader)[\w.]*)", PAGE) if not find_spec(name)]
    assert not [name for name in re.findall(r"`(\.\w+/)`", PAGE) if name != ".venv/" and not (ROOT / name).is_dir()]


def test_the_page_is_one_page():
    assert len(PAGE.split()) <= 900 and "docs/where-to-run.md" in text("README.md")
