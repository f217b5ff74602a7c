"""How much memory a rank has for itself, read from outside it, so that nothing it does to its own meters matters (Linux)."""

import os

from grader.sandbox.holders import children_of_all, family
from grader.sandbox.isolation import OWN_FOLDERS

_OWN = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")  # pages that forked processes share are divided among them


def weight_of(process: int) -> int | None:
    """Bytes in memory of a rank's process and those that it began, and in its folders; None if that cannot be read.

    Not what lies in a pipe, or in a file in memory that nobody maps.
    """
    try:
        memory = sum(map(memory_of, family(process, children_of_all())))
        return memory + sum(_written_to(f"/proc/{process}/root{folder}") for folder in OWN_FOLDERS)
    except (OSError, ValueError):
        return None


def memory_of(process: int) -> int:
    """Bytes that a process has in memory and no file has."""
    with open(f"/proc/{process}/smaps_rollup") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith(_OWN))


def _written_to(folder: str) -> int:
    space = os.statvfs(folder)
    return (space.f_blocks - space.f_bfree) * space.f_frsize
