"""Make the students' notebooks from the solutions, with nbgrader's own generate_assignment (`make notebooks`)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """The student version of the units that are named, or of every one.  Raises: SystemExit, with nbgrader's own words."""
    units = [path.stem for path in sorted((ROOT / "solutions").glob("*/*.ipynb")) if path.stem == path.parent.name]
    if unknown := set(sys.argv[1:]) - set(units):
        sys.exit(f"there is no unit {', '.join(unknown)}; expected some of {', '.join(units)}, or none for all")
    for unit in sys.argv[1:] or units:
        command = [sys.executable, "-m", "nbgrader", "generate_assignment", unit, "--force", "--create"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"nbgrader could not release {unit}:\n{done.stderr}")
        print(f"notebooks/{unit}")


if __name__ == "__main__":
    main()
