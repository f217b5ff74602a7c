"""A marking in a process of its own, held to limits: a file that is a trap ends that process, not the batch.

What marks, torch with it, is imported once, by the server that these processes are forked from; who asks needs none of it.
"""

import contextlib
import gc
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from grader.course.again import ANEW, Again
from grader.sandbox.bubblewrap import NoSandbox, prepare_for_child
from utils.ranks.server import COMPILER, shared_server

if TYPE_CHECKING:
    from grader.course.mark import Marked

MARKS = "grader.course.mark"
LEAVE_S = 10.0
_preload = [MARKS]  # by the server, before it forks; what a marking was found to import besides is added


@dataclass(frozen=True)
class Limits:
    """What reading, splicing and judging one submission may use up; the sandboxes within have their own."""

    cpu_s: int = 300
    memory_bytes: int = 3 << 30
    wall_s: float = 4 * 3600.0  # the sandboxes' time included, on a machine that may be busy


def mark_within_limits(submitted: bytes, released: bytes, unsafe: bool = False, limits: Limits = Limits(), *,
                       others: Sequence[tuple[str, bytes]] = (), found: Sequence[str] = (),
                       again: Again = ANEW, called: str = "") -> "Marked":
    """As mark_submission; where it does not come to an end within its limits, nothing is earned, with the reason.

    Raises: NoSandbox, and whatever else mark_submission raises.
    """
    return Marking(submitted, released, unsafe, others, found, again, limits, called).result()


class Marking:
    """One that has begun. Another thread than the one that waits for its result may end it."""

    def __init__(self, submitted: bytes, released: bytes, unsafe: bool = False, others: Sequence[tuple[str, bytes]] = (),
                 found: Sequence[str] = (), again: Again = ANEW, limits: Limits = Limits(), called: str = ""):
        self._released, self._found, self._limits = released, found, limits
        self._options = {"unsafe": unsafe, "others": others, "found": found, "again": again, "called": called}
        self._submitted = submitted
        self._near, far = Pipe()
        with far:
            first = [] if unsafe else [prepare_for_child]
            self._process = shared_server().fork(_mark, limits, [far], [*first, *_preload])

    def end(self) -> None:
        """Let it stop at once; nobody asks for its result any more."""
        with contextlib.suppress(OSError):  # it has just ended by itself
            self._process.kill()

    def result(self) -> "Marked":
        """Wait for it; as mark_within_limits."""
        process, limits = self._process, self._limits
        with self._near as near:
            try:
                near.send((self._submitted, self._released, self._options))
                outcome, imported = near.recv() if near.poll(limits.wall_s) else (
                    f"marking it took more than {limits.wall_s:g} s", [])
                _preload.extend(imported)
            except (EOFError, OSError):
                process.join(LEAVE_S)
                outcome = _ended(process.exitcode, limits)
            finally:
                process.kill()
                process.join(LEAVE_S)
                process.close()
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, str):
            from grader.course.mark import left_unmarked

            notebook, record = left_unmarked(self._released, outcome)
            record["remarks"][:0] = self._found
            return notebook, record
        return outcome


def _ended(exitcode: int | None, limits: Limits) -> str:
    if exitcode == -signal.SIGXCPU:
        return f"reading and judging it took more than {limits.cpu_s} s of processor time"
    return (f"the process that read and judged it, which may hold {limits.memory_bytes / (1 << 30):g} GiB, ended with "
            f"exit code {exitcode} before it was done")


def _mark(pipe: Connection, limits: Limits) -> None:
    """What the process does. Only soft limits, for what it starts sets its own."""
    import torch

    from grader.course.mark import mark_submission
    from utils.ranks.worker import leave_terminal

    gc.freeze()
    known = set(sys.modules)
    leave_terminal()
    for kind, most in ((resource.RLIMIT_DATA, limits.memory_bytes), (resource.RLIMIT_CPU, limits.cpu_s)):
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    torch.set_num_threads(1)  # processor time counts all threads, also those that wait
    try:
        submitted, released, options = pipe.recv()
        outcome = mark_submission(submitted, released, **options)
    except MemoryError:
        outcome = f"reading and judging it took more than {limits.memory_bytes / (1 << 30):g} GiB"
    except NoSandbox as error:
        outcome = error
    except Exception as error:
        outcome = RuntimeError(f"{type(error).__name__}: {error!s:.300}")
    pipe.send((outcome, [module for module in (COMPILER,) if module in sys.modules.keys() - known]))
    with contextlib.suppress(EOFError):  # whoever asked has gone
        pipe.recv()  # stays until it is ended: what was sent may not be read yet
