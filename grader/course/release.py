"""Make the students' notebooks from the solutions, with nbgrader's own generate_assignment (`make notebooks`)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def release(unit: str, *options: str) -> None:
    """Generate one unit's student version.  Raises: SystemExit with nbgrader's own words if it refuses."""
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", unit, "--force", "--create", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"nbgrader could not release {unit}:\n{done.stderr}")
    print(f"notebooks/{unit}")


def main() -> None:
    for folder in sorted((ROOT / "solutions").iterdir()):
        if (folder / f"{folder.name}.ipynb").exists():
            release(folder.name)


if __name__ == "__main__":
    main()
