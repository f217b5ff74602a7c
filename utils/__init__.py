"""What a cell of the course uses. `%load_ext utils` adds the %%ranks magic."""

import os
import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

from utils.deadlocks.errors import DeadlineExceeded, Deadlock, Mismatch, RankFailed, RanksError
from utils.notebook.predictions import Predictions
from utils.ranks.run import Run, run_ranks
from utils.trace.spans import mark, span

__all__ = ["DeadlineExceeded", "Deadlock", "Mismatch", "Predictions", "RankFailed", "RanksError", "Run", "mark", "run_ranks",
           "simulate_ranks", "span"]


def __getattr__(name: str):
    """`from utils import widgets, simulate_ranks`: loaded when first used, because they need more than ranks do."""
    if name == "simulate_ranks":
        from utils.simulation.simulate import simulate_ranks

        return simulate_ranks
    if name == "widgets":
        return sys.modules.get("utils.figures.widgets") or _loaded_when_used("utils.figures.widgets")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _loaded_when_used(name: str):
    """The module of this name, as yet empty."""
    spec = find_spec(name)
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_ipython_extension(shell) -> None:
    """Called by %load_ext utils: add the magic, and start the rank server while the reader reads on (not if RANKS_LATER)."""
    from utils.notebook.magic import RanksMagic
    from utils.ranks.server import COMPILER, shared_server

    shell.register_magics(RanksMagic)
    if not os.environ.get("RANKS_LATER"):
        shared_server().import_modules([COMPILER])
