"""Check that files are small and that the course's notebooks carry no outputs: check_files.py FILE..."""

import json
import sys
from pathlib import Path

LIMIT_BYTES = 500_000


def has_outputs(notebook: dict) -> bool:
    return any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"])


def complaints(path: Path) -> list[str]:
    """What is wrong with the file, as lines for a person. The path is relative to the repository."""
    found = []
    size_bytes = path.stat().st_size
    if size_bytes > LIMIT_BYTES:
        found.append(f"{path}: {size_bytes:,} bytes, over the limit of {LIMIT_BYTES:,}")
    if path.parts[0] in ("solutions", "notebooks") and path.suffix == ".ipynb":
        notebook = json.loads(path.read_text(encoding="utf-8"))
        if has_outputs(notebook):
            found.append(f"{path}: has outputs; clear them (Edit > Clear Outputs of All Cells) and save")
    return found


if __name__ == "__main__":
    lines = [line for name in sys.argv[1:] for line in complaints(Path(name))]
    sys.exit("\n".join(lines) if lines else 0)
