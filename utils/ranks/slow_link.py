"""A slower link between the ranks of one machine, to see what communication costs where it is not copying in memory."""

import contextlib
import socket
import sys

from utils.trace.wire import tcp_connections

_SO_MAX_PACING_RATE = 47  # asm-generic/socket.h; Python's socket has no name for it


def slow_link(MBps: float) -> bool:
    """From now on, each TCP connection of this rank sends at most `MBps` · 10⁶ bytes a second: Linux paces it.

    The bytes take longer, and the cores are free meanwhile, as between machines. Latency stays what it is. Call it in
    every rank, once the ranks have met.
    Returns: whether any connection was slowed; False where the system is not Linux, or ranks do not talk over TCP.
    """
    slowed = False
    for connection in tcp_connections() if sys.platform.startswith("linux") else ():
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, round(MBps * 1e6))
            slowed = True
    return slowed
