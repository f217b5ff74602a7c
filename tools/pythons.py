"""The short suite on every other Python that is here, with the newest libraries that pyproject.toml allows.

Usage: python tools/pythons.py [3.12 3.13 ...]
Looks for python3.12 and so on, on the PATH and where pyenv keeps its versions; a Python that is not here, or for which
something can't be installed, is said and is no failure. Each gets build/pythons/3.12, which stays for the next time.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TOOLS = ("pytest", "pytest-xdist", "pytest-timeout", "PyYAML")
SUITE = ("tests/test_trace.py", "tests/test_check.py", "tests/test_planner_layouts.py", "tests/test_marking.py",
         "tests/test_exercises.py")
CHOSEN = ("not test_exercises and not late and not hangs or "
          "(test_reference_earns_everything or test_skeleton) and (ring_ or global_mean or pass_right)")


def main(asked: list[str]) -> int:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    failed = [version for version in asked or [each for each in VERSIONS if each != own] if not tried(version)]
    if failed:
        print(f"Failed on Python {', '.join(failed)}.")
    return bool(failed)


def tried(version: str) -> bool:
    """Whether nothing failed; says in a line what came of it."""
    began, interpreter = time.monotonic(), found(version)
    if interpreter is None:
        print(f"Python {version}: not here", flush=True)
        return True
    python = ROOT / "build" / "pythons" / version / "bin" / "python"
    try:
        run([interpreter, "-m", "venv", str(python.parents[1])])
        run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed()])
    except subprocess.CalledProcessError as error:
        print(f"Python {version}: not installed: {(error.stderr or error.stdout).strip().splitlines()[-1]}", flush=True)
        return True
    installed = time.monotonic()
    torch = run([str(python), "-c", "import torch; print(torch.__version__)"]).strip()
    done = subprocess.run([str(python), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-m", "not long",
                           "-k", CHOSEN, *SUITE],
                          cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    print(f"Python {version}, torch {torch}: {summary(done.stdout)}; installed in {installed - began:.0f} s, "
          f"tested in {time.monotonic() - installed:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:])
    return done.returncode == 0


def found(version: str) -> str | None:
    """The path of an interpreter of this version."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    on_path = shutil.which(f"python{version}")
    candidates = [str(path) for path in reversed(kept)] + ([on_path] if on_path else [])
    return next((path for path in candidates if version in said_version(path)), None)  # pyenv's shims say no for some


def said_version(path: str) -> str:
    return subprocess.run([path, "--version"], capture_output=True, text=True).stdout


def needed() -> list[str]:
    """What the course and marking import, in the ranges that pyproject.toml has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["grading"], *TOOLS]


def run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def summary(output: str) -> str:
    """pytest's last line without its frame."""
    lines = [line.strip("= ") for line in output.splitlines() if re.search(r"\d+ (passed|failed|error)", line)]
    return lines[-1] if lines else "no tests ran"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
