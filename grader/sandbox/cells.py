"""Run a notebook's cells in a kernel, so that its check cells hand over their functions (program: parcel in, parcel out).

In: steps.json (a list of {"source", "words", "hands_over", "checks"}: for a check cell the exercise and the name of what it
checks, else nothing), exercises.json (exercise -> parameters). Out, as soon as it is
there: began/<step>, outputs/<step>.json, <exercise>.<version>.pkl or .txt (see hand_over), remarks.json.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook

from grader.evidence import parcel
from grader.sandbox import ENDED_KERNEL, FUNCTIONS
from grader.sandbox.kernel import ForkedKernel
from grader.sandbox.watch import family_of
from utils.ranks.fair_clock import FairClock
from utils.ranks.server import RankServer

CELLS = 4  # that may take as long as one may; when so much time is used up, each of the others has
LEAST_S = 5.0
AFTER_INTERRUPT_S = 10.0  # then the kernel is ended
LOOK_EVERY_S = 0.2
OUTPUT_BYTES_A_CELL = 1 << 20
LEAST_ROOM_BYTES = 32 << 20
PATIENCE_S = 300  # for what a kernel has to say at the end of a cell, on a busy machine
TOOLS = "grader.sandbox.hand_over"
BEGIN = ("import gc; gc.freeze(); gc.set_threshold(20_000); "  # while torch is imported there is no garbage to look for
         f"__import__('{TOOLS}', fromlist=['begin']).begin(get_ipython()); del gc")
HAND_OVER = f"__import__('{TOOLS}', fromlist=['hand_over']).hand_over({{!r}}, {{!r}})"
HAND_OVER_ALL = f"__import__('{TOOLS}', fromlist=['hand_over']).hand_over_all()"


class Client(NotebookClient):
    """Takes no more of a cell's output than is sensible."""

    taken_bytes = 0
    server: RankServer

    def create_kernel_manager(self) -> KernelManager:
        """nbclient's, but for how its kernel begins."""
        manager = super().create_kernel_manager()
        manager.provisioner = ForkedKernel(kernel_id=manager.kernel_id, kernel_spec=manager.kernel_spec, parent=manager)
        manager.provisioner.server = self.server
        return manager

    def process_message(self, msg, cell, cell_index):
        """Drop outputs beyond the limit; everything else takes its usual way."""
        if msg["msg_type"] in ("stream", "display_data", "execute_result", "update_display_data", "error"):
            self.taken_bytes += len(json.dumps(msg["content"], default=str))
            if self.taken_bytes > OUTPUT_BYTES_A_CELL:
                return None
        return super().process_message(msg, cell, cell_index)


class Interrupter:
    """Interrupts a kernel whose cell takes too long, by a clock that a busy machine slows down; ends it if it goes on."""

    def __init__(self, pid: int, seconds: float):
        self.interrupted, self.taken_s = False, 0.0
        self._pid, self._seconds = pid, seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Interrupter":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        clock = FairClock(lambda: family_of([self._pid]))
        began = clock.now()
        for limit_s, number in ((self._seconds, signal.SIGINT), (self._seconds + AFTER_INTERRUPT_S, signal.SIGKILL)):
            while self.taken_s < limit_s:
                done = self._done.wait(LOOK_EVERY_S)
                self.taken_s = clock.now() - began
                if done:
                    return
            self.interrupted = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, number)


def run_cells(steps: Sequence[Mapping[str, str]], timeout_s: float, functions: Path, work: Path, writer: parcel.Writer,
              server: RankServer) -> list[str]:
    """Run the steps; remarks on what went wrong. An error in a cell does not stop the next one.

    A kernel that ends takes the rest with it: then ENDED_KERNEL is the last remark.
    """
    remarks: list[str] = []
    cells = [new_code_cell(HAND_OVER.format(step["hands_over"], step["checks"]) if step["hands_over"] else step["source"])
             for step in steps]
    client = Client(new_notebook(cells=[*cells, new_code_cell(HAND_OVER_ALL)]), timeout=None, allow_errors=True,
                    iopub_timeout=PATIENCE_S, startup_timeout=PATIENCE_S, kernel_name="python3",
                    shutdown_kernel="immediate", resources={"metadata": {"path": str(work)}},
                    extra_arguments=[f"--IPKernelApp.exec_lines={BEGIN}"])
    client.server = server
    left_s, sent = CELLS * timeout_s, {"exercises.json"}
    with client.setup_kernel(env={**os.environ, FUNCTIONS: str(functions), "RANKS_LATER": "1"}):
        pid = client.km.provisioner.pid
        for index, cell in enumerate(client.nb.cells):
            words = steps[index]["words"] if index < len(steps) else "the end"
            seconds = min(timeout_s, max(left_s, LEAST_S))
            client.taken_bytes = 0
            writer.add(f"began/{index}", b"")
            try:
                with Interrupter(pid, seconds) as interrupter:
                    outputs = client.execute_cell(cell, index).outputs
                writer.add(f"outputs/{index}.json", json.dumps(outputs).encode())
            except DeadKernelError:
                if interrupter.interrupted:
                    remarks.append(f"{words} was not done after {seconds:g} s and could not be interrupted")
                return [*remarks, ENDED_KERNEL]
            finally:
                for file in sorted(set(os.listdir(functions)) - sent):
                    writer.add(file, (functions / file).read_bytes())
                    sent.add(file)
            if _is_full(functions):
                return [*remarks, f"{words} filled the disk", ENDED_KERNEL]
            left_s -= interrupter.taken_s
            if interrupter.interrupted:
                remarks.append(f"{words} was not done after {seconds:g} s and was interrupted")
            if client.taken_bytes > OUTPUT_BYTES_A_CELL:
                remarks.append(f"{words} wrote more than {OUTPUT_BYTES_A_CELL >> 20} MiB: only the beginning was kept")
    return remarks


def _is_full(folder: Path) -> bool:
    """Whether there is hardly any room for the functions of other cells."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize < LEAST_ROOM_BYTES


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
        remarks = run_cells(json.loads(files["steps.json"]), float(arguments[0]), functions, work, writer, server)
    writer.add("remarks.json", json.dumps(remarks).encode())
    writer.close()
