"""Write tools/locked/: every package that `make lab` installs but torch, with its version and the hashes of its files.

Usage: python tools/lock.py            (needs uv: pip install uv)
course.txt is what students need, marking.txt what the repository needs besides. Both hold on every system and Python that
the course takes. Torch is left out, because its builds for CPU and GPU share a version and their hashes differ.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from requirements import pip_list

ROOT = Path(__file__).resolve().parents[1]
LOCKED = ROOT / "tools" / "locked"
BY_TORCH = ["filelock", "fsspec", "networkx", "sympy", "typing-extensions", "setuptools"]  # what torch itself asks for
ENTRY = re.compile(r"^\S+==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
UV = ["uv", "pip", "compile", "--quiet", "--generate-hashes", "--universal", "--no-annotate", "--no-header",
      "--python-version", "3.11"]


def locked(entries: list[str]) -> dict[str, str]:
    """Each package that these need → its lines of a requirements file; never torch, or what torch's GPU build needs."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, overrides = Path(folder, "wanted.in"), Path(folder, "overrides.txt")
        wanted.write_text("\n".join([*entries, *BY_TORCH]))
        overrides.write_text("torch; sys_platform == 'nowhere'\n")
        compiled = subprocess.run([*UV, "--override", overrides, wanted], check=True, capture_output=True, text=True).stdout
    found: dict[str, str] = {}
    for entry in ENTRY.findall(compiled):  # a package stands twice where an old Python needs an older version
        name = entry.split("==")[0]
        found[name] = found.get(name, "") + entry
    found.pop("torch", None)
    return found


def main() -> None:
    environment = (ROOT / "environment.yml").read_text(encoding="utf-8")
    without_torch = [entry for entry in pip_list(environment) if not entry.startswith(("torch==", "-e"))]
    of_the_course = [entry for entry in pip_list(environment.split("# for marking")[0]) if not entry.startswith("torch==")]
    everything, students = locked(without_torch), locked(of_the_course)
    LOCKED.mkdir(exist_ok=True)
    for name, wanted in {"course.txt": students.keys(), "marking.txt": everything.keys() - students.keys()}.items():
        lines = [entry for package, entry in everything.items() if package in wanted]
        (LOCKED / name).write_text("# Made by tools/lock.py.\n" + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
