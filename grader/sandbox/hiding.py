"""Folders of `utils` for the sandbox of cells: what exercises forbid is not in them, neither as text nor as code.

In its place are modules whose names can be imported, and not used (grader.sandbox.hidden).
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.sandbox.programs import ROOT

OURS = "utils."  # torch is in memory there in any case, and cells of a student's own may import any of it
HIDDEN = "from grader.sandbox.hidden import names_of\n\n__getattr__ = names_of(__name__, {!r})\n"


@contextlib.contextmanager
def without(modules: Sequence[str]) -> Iterator[dict[str, str]]:
    """Folder of the project → a copy of it in which these modules and packages of ours are hidden, as long as it lasts."""
    hidden = {name: ROOT / name.replace(".", "/") for name in sorted(set(modules)) if name.startswith(OURS)}
    with tempfile.TemporaryDirectory(prefix="hiding-", ignore_cleanup_errors=True) as place:
        copies: dict[Path, Path] = {}
        for name, path in hidden.items():
            folder = path if path.is_dir() else path.parent
            if folder not in copies:
                copies[folder] = Path(place) / name
                shutil.copytree(folder, copies[folder], ignore=shutil.ignore_patterns("__pycache__"))
            files = copies[folder].rglob("*.py") if path.is_dir() else [copies[folder] / f"{path.name}.py"]
            for file in files:
                file.write_text(HIDDEN.format(name))
        yield {str(folder.relative_to(ROOT)): str(copy) for folder, copy in copies.items()}
