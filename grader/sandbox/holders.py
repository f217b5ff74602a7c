"""Read from outside the ranks: who holds which connection, and how much crossed the loopback (Linux)."""

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator, Mapping

from grader.sandbox.streams import End

_PIDFD_GETFD = 438  # on every machine, asm-generic/unistd.h
_libc = ctypes.CDLL(None, use_errno=True)


def connection_holders(processes: Mapping[int, int]) -> dict[tuple[End, End], int]:
    """(own end, other end) -> rank, for every open TCP connection that a rank's process, or one that it began, holds.

    processes: rank -> process. Read from outside the ranks (with CAP_SYS_PTRACE), so that no rank has a say in it; what
    cannot be read is left out.
    """
    children = children_of_all()
    return {ends: rank for rank, top in processes.items()
            for process in family(top, children) for ends in _connections_of(process)}


def children_of_all() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
            children.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
    return children


def family(top: int, children: Mapping[int, list[int]]) -> list[int]:
    """A process and all that it began."""
    return [top, *(one for child in children.get(top, []) for one in family(child, children))]


def sockets_of(process: int) -> Iterator[socket.socket]:
    """Each that it has open, for as long as it is looked at; what cannot be read is left out."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process)
        try:
            for entry in os.listdir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):  # closed meanwhile
                    if os.readlink(f"/proc/{process}/fd/{entry}").startswith("socket:"):
                        with socket.socket(fileno=_copied(handle, int(entry))) as one:
                            yield one
        finally:
            os.close(handle)


def is_tcp(one: socket.socket) -> bool:
    return one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM


def _connections_of(process: int) -> Iterator[tuple[End, End]]:
    for one in filter(is_tcp, sockets_of(process)):
        with contextlib.suppress(OSError):  # not connected
            own, other = one.getsockname(), one.getpeername()
            yield _end(one.family, own), _end(one.family, other)


def _end(family: int, name: tuple) -> End:
    return socket.inet_pton(family, name[0])[-4:], name[1]


def _copied(process_handle: int, descriptor: int) -> int:
    """An open file of another process as one of this one's.  Raises: OSError where that may not be."""
    copy = _libc.syscall(_PIDFD_GETFD, process_handle, descriptor, 0)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return copy


def loopback_bytes() -> int:
    """Bytes that have crossed this network namespace's loopback, headers included (/proc/net/dev)."""
    with open("/proc/net/dev") as file:
        return next(int(line.split(":")[1].split()[0]) for line in file if line.strip().startswith("lo:"))
