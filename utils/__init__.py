"""What a cell of the course uses: ranks, traces, memory, costs, figures. `%load_ext utils` adds the %%ranks magic."""

import os

from utils.errors import DeadlineExceeded, Deadlock, Mismatch, RankFailed, RanksError
from utils.ranks import Run, run_ranks
from utils.spans import mark, span

__all__ = ["DeadlineExceeded", "Deadlock", "Mismatch", "RankFailed", "RanksError", "Run", "mark", "run_ranks", "span"]


def load_ipython_extension(shell) -> None:
    """Called by %load_ext utils: add the magic, and start the rank server while the reader reads on (not if RANKS_LATER)."""
    from utils.magic import RanksMagic
    from utils.processes import warm_up

    shell.register_magics(RanksMagic)
    if not os.environ.get("RANKS_LATER"):
        warm_up()
