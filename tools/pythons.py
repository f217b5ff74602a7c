"""The short suite on every other Python that is here, with the oldest and the newest torch that pyproject.toml allows.

Usage: python tools/pythons.py [3.12 3.13 ...]
Looks for python3.12 and so on, on the PATH and where pyenv keeps its versions. The first of them gets the oldest torch, the
others the newest, and all get the newest of the other libraries. A Python that is not here, or for which something can't be
installed, is said and is no failure. Each gets build/pythons/3.12, which stays for the next time.
"""

import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import tried

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TOOLS = ("pytest", "pytest-xdist", "pytest-timeout", "PyYAML")
SUITE = ("tests/test_upgrading.py", "tests/test_trace.py", "tests/test_check.py", "tests/test_planner_layouts.py",
         "tests/test_marking.py", "tests/test_exercises.py")
CHOSEN = ("not test_exercises and not late and not hangs or "
          "(test_reference_earns_everything or test_skeleton) and (ring_ or global_mean or pass_right)")


def main(asked: list[str]) -> int:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    here = {version: found(version) for version in asked or [each for each in VERSIONS if each != own]}
    for version in [version for version, python in here.items() if python is None]:
        print(f"Python {version}: not here", flush=True)
        del here[version]
    failed = [version for number, (version, python) in enumerate(here.items())
              if not passes(version, python, oldest_torch=number == 0 and len(here) > 1)]
    if failed:
        print(f"Failed on Python {', '.join(failed)}.")
    return bool(failed)


def passes(version: str, interpreter: str, oldest_torch: bool) -> bool:
    began, python = time.monotonic(), str(ROOT / "build" / "pythons" / version / "bin" / "python")
    try:
        subprocess.run([interpreter, "-m", "venv", Path(python).parents[1]], check=True, capture_output=True, text=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed(oldest_torch)],
                       check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        print(f"Python {version}: not installed: {(error.stderr or error.stdout).strip().splitlines()[-1]}", flush=True)
        return True
    print(f"Python {version}: installed in {time.monotonic() - began:.0f} s", flush=True)
    suite = ["env", "PYTHONPATH=.", str(Path(python).relative_to(ROOT)), "-m", "pytest", "-q", "-n", "2",
             "-p", "no:cacheprovider", "-m", "not long", "-k", CHOSEN, *SUITE]
    return tried.run("a short suite", suite, python) == 0


def found(version: str) -> str | None:
    """The path of an interpreter of this version."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    on_path = shutil.which(f"python{version}")
    candidates = [str(path) for path in reversed(kept)] + ([on_path] if on_path else [])
    return next((path for path in candidates if version in said_version(path)), None)  # pyenv's shims say no for some


def said_version(path: str) -> str:
    return subprocess.run([path, "--version"], capture_output=True, text=True).stdout


def needed(oldest_torch: bool) -> list[str]:
    """What the course and marking import, in the ranges that pyproject.toml has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = [*project["dependencies"], *project["optional-dependencies"]["grading"], *TOOLS]
    return [re.sub(r"^torch>=([\d.]+).*", r"torch==\1.*", entry) if oldest_torch else entry for entry in entries]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
