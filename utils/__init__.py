"""What a cell of the course uses. `%load_ext utils` adds the %%ranks magic."""

import os

from utils.deadlocks.errors import DeadlineExceeded, Deadlock, Mismatch, RankFailed, RanksError
from utils.ranks.run import Run, run_ranks
from utils.trace.spans import mark, span

__all__ = ["DeadlineExceeded", "Deadlock", "Mismatch", "RankFailed", "RanksError", "Run", "mark", "run_ranks", "span"]


def __getattr__(name: str):
    """`from utils import widgets`: only when asked for, because drawing needs more than ranks do."""
    if name == "widgets":
        import utils.figures.widgets as widgets

        return widgets
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell) -> None:
    """Called by %load_ext utils: add the magic, and start the rank server while the reader reads on (not if RANKS_LATER)."""
    from utils.notebook.magic import RanksMagic
    from utils.ranks.server import COMPILER, shared_server

    shell.register_magics(RanksMagic)
    if not os.environ.get("RANKS_LATER"):
        shared_server().import_modules([COMPILER])
