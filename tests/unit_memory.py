"""How much memory a student's kernel and its ranks take at most while a solved unit runs from top to bottom (Linux).

Usage: python -m tests.unit_memory [UNIT ...]; shared pages are divided among those who share them, and libraries count.
"""

import contextlib
import os
import sys
import threading
import time
from pathlib import Path

from grader.sandbox.watch import family_of
from grader.site.execute import executed

ROOT = Path(__file__).resolve().parents[1]
LOOK_EVERY_S = 0.1


def bytes_of(pid: int) -> int:
    """Of one process; 0 if it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    return 0


def peak_of(unit: str) -> tuple[int, int]:
    """(the most bytes, the most processes) below this one while the unit's solution runs."""
    peak, over = [0, 0], threading.Event()

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            started = family_of([os.getpid()])[1:]
            peak[:] = max(peak[0], sum(map(bytes_of, started))), max(peak[1], len(started))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        executed(ROOT / "solutions" / unit / f"{unit}.ipynb")
    finally:
        over.set()
        watcher.join()
    return peak[0], peak[1]


def main() -> None:
    for unit in sys.argv[1:] or sorted(path.name for path in (ROOT / "solutions").iterdir() if path.is_dir()):
        began = time.monotonic()
        most_bytes, processes = peak_of(unit)
        spent_s = time.monotonic() - began
        print(f"{unit}: {most_bytes / 1e9:.2f} GB at most, {processes} processes, {spent_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
