"""Starting and ending processes: a clean parent for the ranks, and no rank left behind."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import multiprocessing.util
import os
import signal
import sys
import traceback
import types
from collections.abc import Iterator, Sequence

PRELOAD = ("torch", "torch.distributed", "utils.ranks.worker", "numpy.ctypeslib")  # what ranks would else import one by one
COMPILER = "torch._dynamo"  # torch imports it, for 0.9 s, at an optimizer's first step


def context_for(start_method: str, preload: Sequence[str] = (COMPILER,)):
    """The multiprocessing context; ranks of a forkserver find torch and `preload` already imported.

    Whoever starts the server first in a process decides what is preloaded.
    """
    context = multiprocessing.get_context(start_method)
    if start_method == "forkserver":
        context.set_forkserver_preload([*PRELOAD, *preload])
    return context


def warm_up(preload: Sequence[str] = (COMPILER,), split_off: bool = False) -> None:
    """Start the server that ranks are forked from, so that the first run need not wait for it to import torch.

    split_off: a copy of this process becomes the server, and has what is imported here without importing it again. For a
    process with one thread and nothing in its memory that a rank may not see.
    """
    if hasattr(os, "fork"):
        context_for("forkserver", preload)
        with plain_main(), _splitting_off() if split_off else contextlib.nullcontext():
            multiprocessing.forkserver.ensure_running()


@contextlib.contextmanager
def _splitting_off() -> Iterator[None]:
    """What multiprocessing starts as a new interpreter meanwhile becomes a copy of this process; not so its tracker."""
    multiprocessing.resource_tracker.ensure_running()
    original, multiprocessing.util.spawnv_passfds = multiprocessing.util.spawnv_passfds, _run_in_a_copy
    try:
        yield
    finally:
        multiprocessing.util.spawnv_passfds = original


def _run_in_a_copy(_: str, arguments: Sequence[str], kept: Sequence[int]) -> int:
    """Run the program that follows -c with no other files than those `kept` and the log.  Returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        ends = [2, *sorted(kept), os.sysconf("SC_OPEN_MAX")]
        for last_kept, next_kept in itertools.pairwise(ends):
            os.closerange(last_kept + 1, next_kept)
        exec(arguments[-1], {})
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(0)


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
