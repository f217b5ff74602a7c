"""Prepare a kernel that `make lab` did not start, such as Colab's, for the course: docs/where-to-run.md has the cell.

It changes nothing that is installed, and adds only what is missing. Run it again as often as you like.
"""

import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement

COURSE = Path(__file__).resolve().parents[1]
THERE_ALREADY = ("jupyterlab", "torch")  # the notebook runs in something, and torch is nothing to replace unasked


def requirements() -> dict[str, Requirement]:
    """Name → range, of what the course imports."""
    project = tomllib.loads((COURSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {one.name: one for one in map(Requirement, project["dependencies"])}


def installed(name: str) -> str:
    """Its version, or nothing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def check_torch(wanted: Requirement) -> None:
    """Raises: RuntimeError that says what to do, where ranks cannot run with the torch that is here."""
    here = installed("torch")
    if not here or not wanted.specifier.contains(here, prereleases=True):
        raise RuntimeError(f"This course needs {wanted}, and here is {f'torch {here}' if here else 'no torch'}. Run "
                           f'%pip install "{wanted}", restart the kernel, and run this cell again.')
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_gloo_available():
        raise RuntimeError(f"Ranks talk to each other by gloo, and torch {here} was built without it: take another build.")


def install(missing: list[str]) -> None:
    """Raises: RuntimeError with pip's last words."""
    pip = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing], capture_output=True, text=True)
    if pip.returncode:
        raise RuntimeError(f"Could not install {', '.join(missing)}: {(pip.stderr.strip().splitlines() or ['?'])[-1]}")


def main() -> None:
    wanted = requirements()
    check_torch(wanted["torch"])
    rest = {name: installed(name) for name in wanted if name not in THERE_ALREADY}
    missing = [str(wanted[name]) for name, here in rest.items() if not here]
    if missing:
        install(missing)
    others = [f"{name} {here}" for name, here in rest.items() if here and here not in wanted[name].specifier]
    if str(COURSE) not in sys.path:
        sys.path.insert(0, str(COURSE))
    os.chdir(min(path for path in (COURSE / "notebooks").iterdir() if path.is_dir()))  # notebooks look for others at ../
    print(f"Ready: torch {installed('torch')}, {f'installed {len(missing)} packages' if missing else 'nothing to install'}.")
    if others:
        print(f"The course was not tried with {', '.join(others)}.")


if __name__ == "__main__":
    main()
