"""The first cell where `make lab` did not start the kernel: what it changes, and what it says."""

import os
import sys

import pytest
from packaging.requirements import Requirement

from tools import first_cell

TORCH = Requirement("torch>=2.13,<2.14")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder that is not the course's. Returns a function: make the versions that are installed these."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    real = first_cell.installed
    return lambda **versions: monkeypatch.setattr(first_cell, "installed", lambda name: versions.get(name, real(name)))


@pytest.mark.parametrize("here, words", [("2.9.1", "here is torch 2.9.1"), ("2.14.0", "here is torch 2.14.0"),
                                         ("", "here is no torch")])
def test_a_torch_that_does_not_do_is_named_and_left_alone(elsewhere, here, words):
    elsewhere(torch=here)
    with pytest.raises(RuntimeError, match=f'needs torch.*{words}. Run %pip install "torch<2.14,>=2.13", restart'):
        first_cell.check_torch(TORCH)


@pytest.mark.parametrize("here", ["2.13.0", "2.13.0+cpu", "2.13.1+cu128"])
def test_a_build_of_the_course_s_torch_does(elsewhere, here):
    elsewhere(torch=here)
    first_cell.check_torch(TORCH)


def test_only_what_is_missing_is_installed(elsewhere, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(first_cell, "install", lambda missing: asked.extend(missing))
    elsewhere(msgspec="", jupyterlab="", ipython="7.34.0")
    first_cell.main()
    assert asked == ["msgspec>=0.19"]
    assert "installed 1 packages" in (said := capsys.readouterr().out) and "not tried with ipython 7.34.0." in said


def test_the_course_is_found_and_notebooks_find_each_other(elsewhere, capsys):
    first_cell.main()
    assert sys.path[0] == str(first_cell.COURSE) and os.path.samefile("..", first_cell.COURSE / "notebooks")
    assert "nothing to install" in capsys.readouterr().out


def test_what_pip_says_is_passed_on(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(RuntimeError, match="Could not install no-such-package: ERROR: No matching distribution"):
        first_cell.install(["no-such-package"])
