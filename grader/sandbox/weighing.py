"""How much memory a rank has for itself, read from outside it, so that nothing it does to its own meters matters (Linux)."""

import contextlib
import fcntl
import os
import socket
import stat
import struct
import termios
from collections.abc import Iterator

from grader.sandbox.holders import children_of_all, family, is_tcp, sockets_of
from grader.sandbox.isolation import OWN_FOLDERS

_OWN = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")  # pages that forked processes share are divided among them
_FILE_BYTES = 1 << 10  # of a file or folder beside its blocks: its name and what the kernel notes of it
_SO_MEMINFO, _MEMINFO = 55, struct.Struct("=9I")


def weight_of(process: int) -> int | None:
    """Bytes in memory of a rank's process and those that it began, in its folders, its pipes, and its sockets beside what
    they carry from rank to rank; None if that cannot be read."""
    try:
        begun = [other for other in family(process, children_of_all()) if other != process]
        written = sum(_written_to(f"/proc/{process}/root{folder}") for folder in OWN_FOLDERS)
        piped = sum({pipe: held for one in (process, *begun) for pipe, held in pipes_of(one)}.values())
        kept = sum({number: held for one in (process, *begun) for number, held in kept_in_sockets(one)}.values())
        return memory_of(process) + sum(map(_memory_if_there, begun)) + written + piped + kept
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


def pipes_of(process: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Each pipe that it has open, with a name or without, and the bytes in it that nobody has read."""
    with contextlib.suppress(OSError):  # it has ended
        for entry in os.scandir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                if stat.S_ISFIFO((found := os.stat(entry.path)).st_mode):
                    end = os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK)
                    try:
                        held = fcntl.ioctl(end, termios.FIONREAD, bytes(4))
                    finally:
                        os.close(end)
                    yield (found.st_dev, found.st_ino), int.from_bytes(held, "little")


def kept_in_sockets(process: int) -> Iterator[tuple[int, int]]:
    """Each socket that it has open, and the bytes that the kernel keeps for it: settings; where it is no TCP connection,
    what was sent and not received, too. (What comes by those, the witness sees, and it may come before it is asked for.)"""
    for one in sockets_of(process):
        with contextlib.suppress(OSError):
            received, _, sent, _, _, _, settings, *_ = _MEMINFO.unpack(
                one.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))
            yield os.fstat(one.fileno()).st_ino, settings + (0 if is_tcp(one) else received + sent)


def _written_to(folder: str) -> int:
    space = os.statvfs(folder)
    return (space.f_blocks - space.f_bfree) * space.f_frsize + (space.f_files - space.f_ffree) * _FILE_BYTES
