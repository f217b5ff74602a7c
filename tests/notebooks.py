"""The functions that a notebook's exercise cells define."""

import functools
from collections.abc import Callable
from pathlib import Path

import nbformat

from utils.trace.source import remember

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def functions_of(folder: str, unit: str) -> dict[str, Callable]:
    """Run the notebook's cells except checks, watches and magics; what they define, by name."""
    path = ROOT / folder / unit / f"{unit}.ipynb"
    namespace: dict = {"__name__": f"{folder}_{unit}"}
    for cell in nbformat.read(path, as_version=4).cells:
        is_check = cell.metadata.get("nbgrader", {}).get("grade", False)
        if cell.cell_type != "code" or is_check or "watch" in cell.metadata.get("tags", []):
            continue
        source = "\n".join(line for line in cell.source.splitlines() if not line.startswith(("%", "!")))
        exec(compile(source, remember(f"{path.name}:{cell.id}", source), "exec"), namespace)
    return namespace
