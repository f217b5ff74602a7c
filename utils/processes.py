"""Starting and ending processes: a clean parent for the ranks, and no rank left behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import types
from collections.abc import Iterator

# What ranks would else import one by one; the last two: for a check's rank (a server without the grader does without).
PRELOAD = ["torch", "torch.distributed", "utils.worker", "grader.inside.adapters", "numpy.ctypeslib"]
COMPILER = "torch._dynamo"  # torch imports it, for 0.9 s, at an optimizer's first step


def context_for(start_method: str, isolated: bool = False, trains: bool = True):
    """The multiprocessing context; ranks of a forkserver find torch already imported.

    isolated: the server can only start isolated ranks, or only others. trains: whether optimizers will step in its ranks.
    Of both holds: whoever starts the server first in a process decides.
    """
    context = multiprocessing.get_context(start_method)
    if start_method == "forkserver":
        context.set_forkserver_preload([*PRELOAD, *([COMPILER] if trains else []), *(["utils.apart"] if isolated else [])])
    return context


def warm_up(isolated: bool = False, trains: bool = True) -> None:
    """Start the server that ranks are forked from, so that the first run need not wait for it to import torch."""
    if hasattr(os, "fork"):
        context_for("forkserver", isolated, trains)
        with plain_main():
            multiprocessing.forkserver.ensure_running()


@contextlib.contextmanager
def plain_main() -> Iterator[None]:
    """Children must not import the caller's __main__ again: what they need of it travels in the task."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def kill_session(process) -> None:
    """End a rank and whatever it started; ranks lead sessions of their own."""
    if process.pid is None or process.exitcode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def exit_in_words(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        extra = {"SIGKILL": " (out of memory?)", "SIGSEGV": " (a crash in compiled code)"}.get(name, "")
        return f"its process was ended by {name}{extra}"
    return f"its process left with exit code {code} before the function returned"
