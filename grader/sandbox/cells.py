"""Run a notebook's cells in a kernel, so that its check cells hand over their functions (program: parcel in, parcel out).

In: notebook.json, exercises.json (exercise -> parameters). Out, as soon as it is there: <exercise>.pkl or .txt,
outputs/<index of the cell>.json, remarks.json.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbclient.util import run_sync
from nbformat import NotebookNode

from grader.evidence import parcel
from grader.sandbox import FUNCTIONS

CELL_TIMEOUT_S = 60
TIMEOUTS_ALLOWED = 2
OUTPUT_BYTES_A_CELL = 1 << 20


class Client(NotebookClient):
    """Takes no more of a cell's output than is sensible."""

    taken_bytes = 0

    def process_message(self, msg, cell, cell_index):
        """Drop outputs beyond the limit; everything else takes its usual way."""
        if msg["msg_type"] in ("stream", "display_data", "execute_result", "update_display_data", "error"):
            self.taken_bytes += len(json.dumps(msg["content"], default=str))
            if self.taken_bytes > OUTPUT_BYTES_A_CELL:
                return None
        return super().process_message(msg, cell, cell_index)


def run_cells(notebook: NotebookNode, functions: Path, work: Path, writer: parcel.Writer) -> list[str]:
    """Run what is to be run; remarks on what went wrong. An error in a cell does not stop the next one."""
    remarks: list[str] = []
    client = Client(notebook, timeout=CELL_TIMEOUT_S, allow_errors=True, kernel_name="python3",
                    shutdown_kernel="immediate", resources={"metadata": {"path": str(work)}})
    timeouts, sent = 0, {"exercises.json"}
    with client.setup_kernel(env={**os.environ, FUNCTIONS: str(functions), "RANKS_LATER": "1"}):
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code" or "watch" in cell.metadata.get("tags", []):
                continue
            client.taken_bytes = 0
            try:
                outputs = client.execute_cell(cell, index).outputs
                writer.add(f"outputs/{index}.json", json.dumps(outputs).encode())
            except CellTimeoutError:
                timeouts += 1
                remarks.append(f"the cell {_name(cell)!r} was not done after {CELL_TIMEOUT_S} s")
                if timeouts == TIMEOUTS_ALLOWED:
                    return [*remarks, "the cells after it were not run"]
                run_sync(client.km.interrupt_kernel)()
            except DeadKernelError:
                return [*remarks, f"the kernel died in the cell {_name(cell)!r}; the cells after it were not run"]
            finally:
                for file in sorted(set(os.listdir(functions)) - sent):
                    writer.add(file, (functions / file).read_bytes())
                    sent.add(file)
            if client.taken_bytes > OUTPUT_BYTES_A_CELL:
                remarks.append(f"the cell {_name(cell)!r} wrote more than {OUTPUT_BYTES_A_CELL >> 20} MiB: only the "
                               "beginning was kept")
    return remarks


def _name(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", ""))


def main() -> None:
    """Read the parcel from standard input, write to standard output."""
    files = parcel.from_bytes(sys.stdin.buffer.read())
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints to the log
    writer = parcel.Writer(stream)
    with tempfile.TemporaryDirectory() as folder:
        functions, work = Path(folder) / "functions", Path(folder) / "work"
        functions.mkdir()
        work.mkdir()
        (functions / "exercises.json").write_bytes(files["exercises.json"])
        remarks = run_cells(nbformat.reads(files["notebook.json"].decode(), as_version=4), functions, work, writer)
    writer.add("remarks.json", json.dumps(remarks).encode())
    writer.close()


if __name__ == "__main__":
    main()
