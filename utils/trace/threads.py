"""The threads of a rank besides its main one: which of them could still make a call."""

import sys
import sysconfig
import threading
from pathlib import Path

from utils.trace.user_code import is_user_file

_STDLIB = sysconfig.get_path("stdlib")
_WAITING = tuple(f"{_STDLIB}/{name}" for name in (
    "threading.py", "queue.py", "concurrent/futures/thread.py", "multiprocessing/", "selectors.py", "socket", "ssl.py",
    "subprocess.py"))  # where a thread stands that waits for something
_FOR_GOOD = (f"{_STDLIB}/concurrent/futures/thread.py",)  # until another thread gives it something to do
_EVENT_LOOP = f"{_STDLIB}/asyncio/"


def idle_threads(but: frozenset[int], machinery: tuple[str, ...] = ()) -> dict[int, str] | None:
    """Thread → its name and file, of those that only wait for others to give them something to do; None if one may go on.

    but: threads that are not looked at. A thread that sleeps or computes may go on, and one that runs a program's own
    code unless it waits without a time limit; a library's thread may not, where it waits (as tqdm's does, from time to
    time for ten seconds).
    """
    threads, idle = {thread.ident: thread for thread in threading.enumerate()}, {}
    for ident, frame in sys._current_frames().items():
        if ident in but:
            continue
        if isinstance(threads.get(ident), threading.Timer) or _may_go_on(frame, machinery):
            return None
        idle[ident] = _in_words(threads.get(ident), frame)
    return idle


def _may_go_on(frame, machinery: tuple[str, ...]) -> bool:
    files = _files(frame)
    if not files[0].startswith(_WAITING) or any(file.startswith(_EVENT_LOOP) for file in files):
        return True
    if not any(is_user_file(file, machinery) for file in files):
        return False
    return not (files[0].startswith(_FOR_GOOD) or frame.f_locals.get("timeout", 0) in (None, -1))


def _files(frame) -> list[str]:
    """Of its calls, innermost first."""
    files = []
    while frame is not None:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    return files


def _in_words(thread: threading.Thread | None, frame) -> str:
    """"tqdm_monitor (tqdm/_monitor.py)": its name, and the file that says most of what it is for."""
    files = _files(frame)[::-1]
    told = next((file for file in files if not file.startswith(_STDLIB) or "site-packages" in file), None)
    told = told or next((file for file in files if not file.endswith("/threading.py")), files[0])
    return f"{thread.name if thread else 'a thread'} ({'/'.join(Path(told).parts[-2:])})"
