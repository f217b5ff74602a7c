"""Ranks' processes without a server, and how any of them ends."""

import contextlib
import multiprocessing
import os
import signal
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any


def spawned(main: Callable, settings: Any, pipes: Sequence[Connection]) -> multiprocessing.Process:
    """A new interpreter that calls main(*pipes, settings): slow, and all that there is where nothing can be forked."""
    with _plain_main():
        process = multiprocessing.get_context("spawn").Process(target=main, args=(*pipes, settings), daemon=True)
        process.start()
    return process


@contextlib.contextmanager
def _plain_main() -> Iterator[None]:
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
    """Why a process is gone."""
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        extra = {"SIGKILL": " (out of memory?)", "SIGSEGV": " (a crash in compiled code)"}.get(name, "")
        return f"its process was ended by {name}{extra}"
    return f"its process left with exit code {code} before the function returned"
