"""Bytes that really crossed the wire, from the kernel's counters of each TCP connection (Linux)."""

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator

_TCP_INFO_LENGTH = 256
_BYTES_SENT_OFFSET = 200  # struct tcp_info, linux/tcp.h: __u64 tcpi_bytes_sent, __u64 tcpi_bytes_retrans


def connection_counters() -> dict[str, int]:
    """Bytes sent so far on each TCP connection of this process, without repetitions.

    Returns {"local port-peer port": bytes}; empty where the system has no such counters (not Linux).
    """
    if not sys.platform.startswith("linux"):
        return {}
    counters = {}
    for connection in tcp_connections():
        with contextlib.suppress(OSError):  # closed meanwhile
            counters.update(_read_one(connection))
    return counters


def tcp_connections() -> Iterator[socket.socket]:
    """Each TCP connection of this process, opened a second time until the next one is asked for (Linux)."""
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile, or not a connected TCP socket
            if os.readlink(f"/proc/self/fd/{entry}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(entry))) as connection:
                    is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM
                    if is_tcp and connection.getpeername():
                        yield connection


def _read_one(connection: socket.socket) -> dict[str, int]:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_LENGTH)
    if len(info) < _BYTES_SENT_OFFSET + 16:
        return {}  # a kernel older than 4.19
    sent, repeated = struct.unpack_from("<QQ", info, _BYTES_SENT_OFFSET)
    return {f"{connection.getsockname()[1]}-{connection.getpeername()[1]}": sent - repeated}


def traffic_matrix(readings: list[dict[str, dict[str, int]]]) -> list[list[int]] | None:
    """Bytes from each rank to each other rank between its readings "before" and "after", or None without counters.

    A connection belongs to two ranks when its two ports appear, mirrored, in both ranks' readings; connections to
    anyone else (the rendezvous) have no mirror and are left out.
    """
    owner = {key: rank for rank, reading in enumerate(readings) for key in reading["after"]}
    if not owner:
        return None
    matrix = [[0] * len(readings) for _ in readings]
    for key, rank in owner.items():
        mirrored = "-".join(reversed(key.split("-")))
        if mirrored in owner:
            before, after = readings[rank]["before"], readings[rank]["after"]
            matrix[rank][owner[mirrored]] += after[key] - before.get(key, 0)
    return matrix
