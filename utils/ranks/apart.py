"""Work that an interrupt must not cut in half: it goes on in a thread of its own, is told of it, and ends in order.

Python raises KeyboardInterrupt, and whatever else the handler of a signal raises, in the main thread, between any two of its
instructions: also between the one that opens a file or starts a process and the one that notes that.
"""

import _thread
import contextvars
import socket
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def run_apart(work: Callable[[socket.socket], T]) -> T:
    """What work(interrupts) returns; `interrupts` can be read from once this thread was interrupted.

    Raises: what the work raised; or what interrupted this thread, when the work has ended.
    """
    ours, interrupts = socket.socketpair()
    left, outcome = [work], []

    def body() -> None:
        try:
            own_work = left.pop()
        except IndexError:
            return  # interrupted as it began this thread, the caller began a second one
        with interrupts:
            try:
                outcome[:] = [own_work(interrupts), None]
            except BaseException as error:
                outcome[:] = [None, error]

    context, interrupt, begun = contextvars.copy_context(), None, False
    with ours:
        while True:
            try:
                if interrupt is not None:
                    ours.shutdown(socket.SHUT_WR)
                if not begun:
                    _thread.start_new_thread(context.run, (body,))
                    begun = True
                ours.recv(1)  # nothing comes but the end
                break
            except OSError:  # it has just ended
                break
            except BaseException as error:
                interrupt = interrupt or error
    result, error = outcome
    outcome.clear()
    try:
        if interrupt is not None or error is not None:
            raise interrupt or error
        return result
    finally:
        interrupt = error = None  # their tracebacks hold this frame
