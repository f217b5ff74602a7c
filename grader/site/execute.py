"""Notebooks run from top to bottom, away from everybody's files."""

import shutil
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

CELL_TIMEOUT_S = 300


class CannotRun(Exception):
    """A notebook that stops: which one, and nbclient's words with the cell."""


def executed(path: Path, notebook: NotebookNode | None = None) -> NotebookNode:
    """The notebook with its outputs, run in a copy of all units' folders: it reads other units, and leaves files behind.

    notebook: what is run in the place of what stands at `path`.  Raises: CannotRun.
    """
    notebook = notebook or nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        for other in path.parents[1].glob("*/*.ipynb"):
            (Path(folder) / other.parent.name).mkdir(exist_ok=True)
            shutil.copy(other, Path(folder) / other.parent.name)
        nbformat.write(notebook, Path(folder) / path.stem / path.name)
        here = {"metadata": {"path": str(Path(folder) / path.stem)}}
        try:
            NotebookClient(notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", resources=here,
                           store_widget_state=False).execute()
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise CannotRun(f"{path.stem} stopped:\n{error}") from error
    return notebook
