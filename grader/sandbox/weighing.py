"""How much memory a rank has for itself, read from outside it, so that nothing it does to its own meters matters (Linux)."""

import contextlib
import fcntl
import os
import termios
from collections.abc import Iterator

from grader.sandbox.holders import children_of_all, family
from grader.sandbox.isolation import OWN_FOLDERS

_OWN = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")  # pages that forked processes share are divided among them


def weight_of(process: int) -> int | None:
    """Bytes in memory of a rank's process and those that it began, in its folders and pipes; None if that cannot be read."""
    try:
        begun = [other for other in family(process, children_of_all()) if other != process]
        written = sum(_written_to(f"/proc/{process}/root{folder}") for folder in OWN_FOLDERS)
        piped = sum({pipe: held for one in (process, *begun) for pipe, held in pipes_of(one)}.values())
        return memory_of(process) + sum(map(_memory_if_there, begun)) + written + piped
    except (OSError, ValueError):
        return None


def memory_of(process: int) -> int:
    """Bytes that a process has in memory and no file has.  Raises: OSError or ValueError where that cannot be read."""
    with open(f"/proc/{process}/smaps_rollup") as file:
        own = [line for line in file if line.startswith(_OWN)]
    if not own:
        raise ValueError("this kernel does not tell anonymous pages apart: it is older than 5.3")
    return sum(int(line.split()[1]) << 10 for line in own)


def _memory_if_there(process: int) -> int:
    """The same; nothing of one that has ended meanwhile."""
    try:
        return memory_of(process)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def pipes_of(process: int) -> Iterator[tuple[str, int]]:
    """Each pipe that it has open, and the bytes in it that nobody has read."""
    with contextlib.suppress(OSError):  # it has ended
        for entry in os.scandir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                if (pipe := os.readlink(entry.path)).startswith("pipe:"):
                    end = os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK)
                    try:
                        yield pipe, int.from_bytes(fcntl.ioctl(end, termios.FIONREAD, bytes(4)), "little")
                    finally:
                        os.close(end)


def _written_to(folder: str) -> int:
    space = os.statvfs(folder)
    return (space.f_blocks - space.f_bfree) * space.f_frsize
