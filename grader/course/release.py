"""Make the students' notebooks from the solutions, with nbgrader's own generate_assignment (`make notebooks`)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Every unit's student version.  Raises: SystemExit with nbgrader's own words if it refuses."""
    units = [path.stem for path in sorted((ROOT / "solutions").glob("*/*.ipynb")) if path.stem == path.parent.name]
    for unit in units:
        command = [sys.executable, "-m", "nbgrader", "generate_assignment", unit, "--force", "--create"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"nbgrader could not release {unit}:\n{done.stderr}")
        print(f"notebooks/{unit}")


if __name__ == "__main__":
    main()
