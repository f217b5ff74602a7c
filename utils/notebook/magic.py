"""The %%ranks cell magic: run a cell's body on several ranks."""

import argparse
import shlex
import sys
from typing import Any

from IPython.core.magic import Magics, cell_magic, magics_class

from utils.deadlocks.errors import BadValue
from utils.notebook.cell_body import CellBody
from utils.ranks.run import Run, run_ranks
from utils.trace.source import place_name, remember


@magics_class
class RanksMagic(Magics):
    """%%ranks N"""

    @cell_magic
    def ranks(self, line: str, cell: str) -> Run:
        """%%ranks N [--timeout S]: run this cell on N ranks.

        `rank`, `world_size`, `torch` and `dist` are ready to use, and so is everything that earlier cells defined. Each
        rank's last expression is its result; the cell's value is the Run, also kept as `run`.
        """
        world_size, timeout_s = _parse(line)
        source = "\n" + cell  # the magic's own line counts, so that line numbers are those of the cell
        filename = remember(_calling_cell(sys._getframe()) or "<%%ranks>", source)
        body = CellBody(source, filename, self.shell.user_ns)
        run = run_ranks(body, world_size, timeout_s=timeout_s)
        self.shell.user_ns["run"] = run
        return run


def _parse(line: str) -> tuple[Any, float]:
    parser = argparse.ArgumentParser(prog="%%ranks", add_help=False, exit_on_error=False)
    parser.add_argument("world_size", type=int)
    parser.add_argument("--timeout", type=float, default=120.0)
    try:
        known = parser.parse_args(shlex.split(line))
    except (argparse.ArgumentError, SystemExit, ValueError):
        raise BadValue(f"write %%ranks N, the number of ranks, as in %%ranks 4; got %%ranks {line}") from None
    return known.world_size, known.timeout


def _calling_cell(frame) -> str | None:
    """The file name under which the running cell was compiled."""
    while frame is not None:
        if place_name(frame.f_code.co_filename).startswith("Cell "):
            return frame.f_code.co_filename
        frame = frame.f_back
    return None
