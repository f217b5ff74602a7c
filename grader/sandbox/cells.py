"""Run a notebook's cells in a kernel, so that its check cells hand over their functions (program: parcel in, parcel out).

In: notebook.json, exercises.json (exercise -> parameters). Out, as soon as it is there: <exercise>.pkl or .txt,
outputs/<index of the cell>.json, remarks.json.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from grader.evidence import parcel
from grader.sandbox import FUNCTIONS
from grader.sandbox.kernel import ForkedKernel
from utils.ranks.server import RankServer

TIMEOUTS_ALLOWED = 2
TIMED_OUT = {"ename": "CellTimeout", "evalue": "", "traceback": []}  # what nbclient takes for the reply of a cell given up
OUTPUT_BYTES_A_CELL = 1 << 20
RARELY = "import gc; gc.freeze(); gc.set_threshold(20_000)"  # while torch is imported there is no garbage to look for


class Client(NotebookClient):
    """Takes no more of a cell's output than is sensible; a cell that takes too long is interrupted and noted."""

    taken_bytes = 0
    timed_out = False
    server: RankServer

    def create_kernel_manager(self) -> KernelManager:
        """nbclient's, but for how its kernel begins."""
        manager = super().create_kernel_manager()
        manager.provisioner = ForkedKernel(kernel_id=manager.kernel_id, kernel_spec=manager.kernel_spec, parent=manager)
        manager.provisioner.server = self.server
        return manager

    def begin_cell(self) -> None:
        self.taken_bytes, self.timed_out = 0, False

    def note_reply(self, execute_reply: dict, **_) -> None:
        """nbclient's hook after each cell."""
        self.timed_out = execute_reply["content"].get("ename") == TIMED_OUT["ename"]

    def process_message(self, msg, cell, cell_index):
        """Drop outputs beyond the limit; everything else takes its usual way."""
        if msg["msg_type"] in ("stream", "display_data", "execute_result", "update_display_data", "error"):
            self.taken_bytes += len(json.dumps(msg["content"], default=str))
            if self.taken_bytes > OUTPUT_BYTES_A_CELL:
                return None
        return super().process_message(msg, cell, cell_index)


def run_cells(notebook: NotebookNode, timeout_s: int, functions: Path, work: Path, writer: parcel.Writer,
              server: RankServer) -> list[str]:
    """Run what is to be run; remarks on what went wrong. An error in a cell does not stop the next one."""
    remarks: list[str] = []
    client = Client(notebook, timeout=timeout_s, interrupt_on_timeout=True, error_on_timeout=TIMED_OUT, allow_errors=True,
                    kernel_name="python3", shutdown_kernel="immediate", resources={"metadata": {"path": str(work)}},
                    extra_arguments=[f"--IPKernelApp.exec_lines={RARELY}"])
    client.on_cell_executed, client.server = client.note_reply, server
    timeouts, sent = 0, {"exercises.json"}
    with client.setup_kernel(env={**os.environ, FUNCTIONS: str(functions), "RANKS_LATER": "1"}):
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code" or "watch" in cell.metadata.get("tags", []):
                continue
            client.begin_cell()
            try:
                outputs = client.execute_cell(cell, index).outputs
                writer.add(f"outputs/{index}.json", json.dumps(outputs).encode())
            except DeadKernelError:
                return [*remarks, f"the kernel died in the cell {_name(cell)!r}; the cells after it were not run"]
            finally:
                for file in sorted(set(os.listdir(functions)) - sent):
                    writer.add(file, (functions / file).read_bytes())
                    sent.add(file)
            if client.timed_out:
                timeouts += 1
                remarks.append(f"the cell {_name(cell)!r} was not done after {timeout_s} s")
                if timeouts == TIMEOUTS_ALLOWED:
                    return [*remarks, "the cells after it were not run"]
            if client.taken_bytes > OUTPUT_BYTES_A_CELL:
                remarks.append(f"the cell {_name(cell)!r} wrote more than {OUTPUT_BYTES_A_CELL >> 20} MiB: only the "
                               "beginning was kept")
    return remarks


def _name(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", ""))


def main(arguments: Sequence[str]) -> None:
    """Read the parcel from standard input, write to standard output. arguments: the seconds that a cell may take."""
    server = RankServer.split_off(preload=())
    files = parcel.from_bytes(sys.stdin.buffer.read())
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints to the log
    writer = parcel.Writer(stream)
    with tempfile.TemporaryDirectory() as folder:
        functions, work = Path(folder) / "functions", Path(folder) / "work"
        functions.mkdir()
        work.mkdir()
        (functions / "exercises.json").write_bytes(files["exercises.json"])
        notebook = nbformat.reads(files["notebook.json"].decode(), as_version=4)
        remarks = run_cells(notebook, int(arguments[0]), functions, work, writer, server)
    writer.add("remarks.json", json.dumps(remarks).encode())
    writer.close()
